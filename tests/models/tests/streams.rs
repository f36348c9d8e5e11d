//! Clients of a gateway get each change once, whichever node or stream sends it. The checker finds each planted
//! mistake.

use sowline_models::checking::{breaks, holds};
use sowline_models::mistakes;
use sowline_models::serving::streams::{Bounds, Mistake, Streams};

const TWO_CLIENTS: Bounds = Bounds {
    changes: 2,
    clients: 2,
    nodes: 2,
    faults: 2,
    outbox: 1,
};
const ONE_CLIENT: Bounds = Bounds {
    changes: 4,
    clients: 1,
    nodes: 2,
    faults: 2,
    outbox: 2,
};

#[test]
fn two_clients() {
    holds(
        "streams, two clients",
        Streams {
            bounds: TWO_CLIENTS,
            mistake: None,
        },
    );
}

#[test]
fn one_client() {
    holds(
        "streams, one client",
        Streams {
            bounds: ONE_CLIENT,
            mistake: None,
        },
    );
}

fn assert_broken(mistake: Mistake, guarantee: &str) {
    let models = [ONE_CLIENT, TWO_CLIENTS].map(|bounds| Streams {
        bounds,
        mistake: Some(mistake),
    });
    breaks(models, &format!("{mistake:?}"), guarantee);
}

mistakes! {
    stream_begins_where_the_node_is: StreamBeginsWhereTheNodeIs breaks "no gap",
    behind_node_is_not_waited_for: BehindNodeIsNotWaitedFor breaks "no repeat",
    messages_do_not_wait: MessagesDoNotWait breaks "no gap",
    floor_is_ignored: FloorIsIgnored breaks "no gap",
    joins_before_it_is_level: JoinsBeforeItIsLevel breaks "no gap",
    leaves_after_the_message: LeavesAfterTheMessage breaks "no gap",
    waiting_messages_are_dropped: WaitingMessagesAreDropped breaks "no gap",
    snapshot_is_not_skipped: SnapshotIsNotSkipped breaks "no repeat",
    lost_node_is_still_heard: LostNodeIsStillHeard breaks "no repeat",
    joins_at_the_goal: JoinsAtTheGoal breaks "no repeat",
}
