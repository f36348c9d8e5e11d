//! A client gets a snapshot of one instant, then each change once, whatever breaks. The checker finds each planted
//! mistake.

use sowline_models::checking::{breaks, holds};
use sowline_models::mistakes;
use sowline_models::serving::handoff::{Bounds, Handoff, Mistake};

const CHANGES: Bounds = Bounds {
    changes: 3,
    keys: 2,
    nodes: 2,
    faults: 1,
    outbox: 2,
};
const FAULTS: Bounds = Bounds {
    changes: 2,
    keys: 2,
    nodes: 2,
    faults: 2,
    outbox: 2,
};

#[test]
fn changes() {
    holds(
        "handoff, changes",
        Handoff {
            bounds: CHANGES,
            mistake: None,
        },
    );
}

#[test]
fn faults() {
    holds(
        "handoff, faults",
        Handoff {
            bounds: FAULTS,
            mistake: None,
        },
    );
}

fn assert_broken(mistake: Mistake, guarantee: &str) {
    let models = [FAULTS, CHANGES].map(|bounds| Handoff {
        bounds,
        mistake: Some(mistake),
    });
    breaks(models, &format!("{mistake:?}"), guarantee);
}

mistakes! {
    rows_are_read_later: RowsAreReadLater breaks "one snapshot",
    group_ends_at_the_replicas_position: GroupEndsAtTheReplicasPosition breaks "one snapshot",
    goes_live_while_behind: GoesLiveWhileBehind breaks "no gap",
    slow_client_loses_a_message: SlowClientLosesAMessage breaks "no gap",
    bookmark_moves_on_receipt: BookmarkMovesOnReceipt breaks "no gap",
    skips_what_is_gone: SkipsWhatIsGone breaks "no gap",
    resumes_with_the_bookmark: ResumesWithTheBookmark breaks "no repeat",
    behind_replica_is_not_waited_for: BehindReplicaIsNotWaitedFor breaks "no repeat",
    keeps_what_waits: KeepsWhatWaits breaks "no repeat",
    asks_for_what_waits: AsksForWhatWaits breaks "no repeat",
    never_out_of_focus: NeverOutOfFocus breaks "focus",
    always_out_of_focus: AlwaysOutOfFocus breaks "focus",
    expires_with_the_memory: ExpiresWithTheMemory breaks "resumable",
    expires_while_behind: ExpiresWhileBehind breaks "resumable",
}
