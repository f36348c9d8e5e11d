//! Notes of the delivery of changes, which hold for one change or one batch.

use crate::audience::Audience;

/// What was found last for subscribers, connections and filters, with the number of the change or batch.
#[derive(Default)]
pub struct Marks {
    pub change: u64,
    pub batch: u64,
    pub reached: Vec<u64>,
    pub parts: Vec<(u64, usize)>,
    /// The index of its `publish` and of its `oof` among the messages of a change.
    pub slots: [Vec<(u64, usize)>; 2],
    pub matched_before: Vec<u64>,
    pub matched_now: Vec<u64>,
}

impl Marks {
    pub fn begin_batch(&mut self, audience: &Audience) {
        self.batch += 1;
        let (subscribers, connections, filters) = audience.sizes();
        self.reached.resize(subscribers, 0);
        self.parts.resize(connections, (0, 0));
        for slots in &mut self.slots {
            slots.resize(connections, (0, 0));
        }
        self.matched_before.resize(filters, 0);
        self.matched_now.resize(filters, 0);
    }
}
