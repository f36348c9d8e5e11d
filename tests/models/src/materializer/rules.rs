//! The rules that the services keep to, the mistakes that break them, and how much happens.

/// A mistake that is planted in the model. The checker has to find each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mistake {
    /// The state is committed, and may be flushed, before Kafka has its events.
    CommitsBeforeEmitting,
    /// The state is committed at the first acknowledgement of a batch.
    CommitsAtFirstAcknowledgement,
    /// A log record that was cut short is not read again.
    CutShortCountsAsComplete,
    /// An owner that dies leaves all but the first of its queued events to arrive.
    ProducerLeavesGaps,
    /// A follower takes events that are not newer than its position.
    FollowerTakesRepeats,
    /// A follower takes what the owner of an ended era wrote late.
    FollowerTakesEndedEras,
    /// Records of a new log are applied in the era of the old one.
    ReplacedLogContinuesTheEra,
    /// A checkpoint reaches the disk ahead of its records.
    TornFlush,
    /// The state is used although the log lacks records up to the last emitted change.
    LogIsTrustedToLeadOn,
    /// An era begins although followers have received more than its base.
    BaseIsNotChecked,
    /// A commit forgets where the tail begins while the state is behind what was emitted.
    TailIsForgotten,
    /// A new era is not announced before its first change.
    EraIsNotAnnounced,
    /// Repairs carry a new era before its progress event.
    EraBeginsWithoutProgress,
    /// A load takes the last event of each key, not the newest.
    LoadTakesTheLast,
    /// A load takes what owners of ended eras wrote late.
    LoadCountsEndedEras,
    /// What stale owners wrote to the tail is not repaired.
    TailIsNotRepaired,
    /// An owner does not look at the offsets of its acknowledgements.
    JumpIsNotSeen,
    /// An owner repairs before it has reached what was emitted.
    RepairsWhileBehind,
}

/// The rules that the services keep to: all of them, or all but one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    pub mistake: Option<Mistake>,
}

impl Rules {
    pub fn makes(self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }
}

/// How much happens at most.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub workers: usize,
    /// How many records a log has.
    pub records: usize,
    /// How many events the changes have. Two owners could repair each other's events forever.
    pub events: usize,
    /// How many logs there are, one after the other.
    pub logs: usize,
    /// How often a worker dies.
    pub crashes: usize,
    /// How often a disk is lost, with its worker.
    pub losses: usize,
    /// How often the group gives up an owner that is alive.
    pub stalls: usize,
}
