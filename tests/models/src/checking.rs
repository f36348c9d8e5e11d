//! Runs a model to its end, and prints what was visited.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

/// The cores that a check uses.
const THREADS: usize = 2;

/// Visit every state within the bounds; panic with the shortest way to one that breaks a guarantee.
pub fn holds<M>(name: &str, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let began = Instant::now();
    let checker = model
        .checker()
        .threads(THREADS)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    println!(
        "{name}: {} states, {} steps deep, {:.1} s",
        checker.unique_state_count(),
        checker.max_depth(),
        began.elapsed().as_secs_f64()
    );
    checker.assert_properties();
}

/// Panic unless one of these models of a mistake breaks the guarantee first; they are checked in turn until one breaks.
pub fn breaks<M>(models: impl IntoIterator<Item = M>, mistake: &str, guarantee: &str)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let found = models.into_iter().find_map(broken);
    let (broken, steps) = found.unwrap_or_else(|| panic!("{mistake} is not found"));
    println!("{mistake}: {broken}, after {} steps", steps.len());
    assert!(
        broken.starts_with(guarantee),
        "{mistake} breaks {broken} by {steps:#?}"
    );
}

/// Define a test for each mistake, which calls the module's `assert_broken`.
#[macro_export]
macro_rules! mistakes {
    ($($name:ident: $mistake:ident breaks $guarantee:literal,)*) => {
        $(#[test] fn $name() { assert_broken(Mistake::$mistake, $guarantee); })*
    };
}

/// Return the guarantee that a model with a mistake breaks, and the steps that lead to that.
fn broken<M>(model: M) -> Option<(String, Vec<M::Action>)>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    // Two threads do not visit the states in one order: of two guarantees that break after equally many steps, either
    // would be the first.
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let failures = checker.discoveries().into_iter();
    let mut failures: Vec<_> = failures
        .filter(|(name, _)| {
            checker.model().property(name).expectation == stateright::Expectation::Always
        })
        .map(|(name, path)| (name.to_owned(), path.into_actions()))
        .collect();
    failures.sort_by_key(|(_, steps)| steps.len());
    failures.into_iter().next()
}
