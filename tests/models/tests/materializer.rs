//! The owner of a partition emits before it commits, even after a takeover. The checker finds each planted mistake.

use sowline_models::checking::{breaks, holds};
use sowline_models::materializer::model::Materializer;
use sowline_models::materializer::rules::{Bounds, Mistake, Rules};
use sowline_models::mistakes;

const BATCHES: Bounds = Bounds {
    workers: 2,
    records: 3,
    events: 7,
    logs: 1,
    crashes: 0,
    losses: 0,
    stalls: 1,
};
const TAKEOVER: Bounds = Bounds {
    workers: 2,
    records: 2,
    events: 6,
    logs: 1,
    crashes: 1,
    losses: 0,
    stalls: 1,
};
const LOSS: Bounds = Bounds {
    workers: 2,
    records: 2,
    events: 6,
    logs: 1,
    crashes: 0,
    losses: 1,
    stalls: 1,
};
const ERAS: Bounds = Bounds {
    workers: 2,
    records: 2,
    events: 6,
    logs: 2,
    crashes: 0,
    losses: 0,
    stalls: 1,
};
const ERAS_AND_CRASHES: Bounds = Bounds {
    workers: 2,
    records: 2,
    events: 6,
    logs: 2,
    crashes: 1,
    losses: 0,
    stalls: 0,
};
/// The smallest first: mistakes are found sooner.
const ALL: [Bounds; 5] = [ERAS_AND_CRASHES, BATCHES, LOSS, ERAS, TAKEOVER];

fn model(bounds: Bounds, mistake: Option<Mistake>) -> Materializer {
    Materializer {
        bounds,
        rules: Rules { mistake },
    }
}

#[test]
fn batches() {
    holds("materializer, batches", model(BATCHES, None));
}

#[test]
fn takeover() {
    holds("materializer, takeover", model(TAKEOVER, None));
}

#[test]
fn loss() {
    holds("materializer, loss of a disk", model(LOSS, None));
}

#[test]
fn eras() {
    holds("materializer, eras", model(ERAS, None));
}

#[test]
fn eras_and_crashes() {
    holds(
        "materializer, eras and crashes",
        model(ERAS_AND_CRASHES, None),
    );
}

fn assert_broken(mistake: Mistake, guarantee: &str) {
    let models = ALL.map(|bounds| model(bounds, Some(mistake)));
    breaks(models, &format!("{mistake:?}"), guarantee);
}

mistakes! {
    commits_before_emitting: CommitsBeforeEmitting breaks "emit before commit",
    commits_at_first_acknowledgement: CommitsAtFirstAcknowledgement breaks "emit before commit",
    cut_short_counts_as_complete: CutShortCountsAsComplete breaks "no gap",
    producer_leaves_gaps: ProducerLeavesGaps breaks "no gap",
    follower_takes_repeats: FollowerTakesRepeats breaks "no repeat",
    follower_takes_ended_eras: FollowerTakesEndedEras breaks "no repeat",
    replaced_log_continues_the_era: ReplacedLogContinuesTheEra breaks "purity",
    torn_flush: TornFlush breaks "purity",
    log_is_trusted_to_lead_on: LogIsTrustedToLeadOn breaks "the newest is kept",
    base_is_not_checked: BaseIsNotChecked breaks "no gap",
    tail_is_forgotten: TailIsForgotten breaks "the newest is kept",
    era_is_not_announced: EraIsNotAnnounced breaks "no gap",
    era_begins_without_progress: EraBeginsWithoutProgress breaks "no gap",
    load_takes_the_last: LoadTakesTheLast breaks "one snapshot",
    load_counts_ended_eras: LoadCountsEndedEras breaks "one snapshot",
    tail_is_not_repaired: TailIsNotRepaired breaks "the newest is kept",
    jump_is_not_seen: JumpIsNotSeen breaks "the newest is kept",
    repairs_while_behind: RepairsWhileBehind breaks "the newest is kept",
}
