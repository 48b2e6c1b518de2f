//! When things happen next: a binary heap over a fixed number of slots, each with at most one time,
//! so that a time can be moved in place and nothing is allocated.

/// Not in the heap.
const ABSENT: u32 = u32::MAX;

/// The next time of each slot; ties go to the lower slot, so that a run is the same each time.
#[derive(Debug, Clone)]
pub(crate) struct Calendar {
    time: Vec<f64>,
    heap: Vec<u32>,
    place: Vec<u32>,
}

impl Calendar {
    /// No times yet, for so many slots.
    pub(crate) fn new(slots: usize) -> Self {
        Self { time: vec![0.0; slots], heap: Vec::with_capacity(slots), place: vec![ABSENT; slots] }
    }

    /// Gives a slot its time, whether it had one or not.
    pub(crate) fn set(&mut self, slot: u32, time: f64) {
        self.time[slot as usize] = time;
        let at = self.place[slot as usize];
        if at == ABSENT {
            self.heap.push(slot);
            self.up(self.heap.len() - 1);
        } else {
            let at = self.up(at as usize);
            self.down(at);
        }
    }

    /// The earliest slot and its time.
    pub(crate) fn first(&self) -> Option<(u32, f64)> {
        self.heap.first().map(|&slot| (slot, self.time[slot as usize]))
    }

    /// Takes the earliest.
    pub(crate) fn pop(&mut self) -> Option<(u32, f64)> {
        let first = self.first()?;
        self.take(0);
        Some(first)
    }

    /// The time of a slot that has one.
    pub(crate) fn time(&self, slot: u32) -> f64 {
        self.time[slot as usize]
    }

    /// Slots that have a time.
    pub(crate) fn slots(&self) -> &[u32] {
        &self.heap
    }

    fn take(&mut self, at: usize) {
        let slot = self.heap.swap_remove(at);
        self.place[slot as usize] = ABSENT;
        if at < self.heap.len() {
            let at = self.up(at);
            self.down(at);
        }
    }

    fn before(&self, a: u32, b: u32) -> bool {
        let (left, right) = (self.time[a as usize], self.time[b as usize]);
        left < right || (left == right && a < b)
    }

    fn up(&mut self, mut at: usize) -> usize {
        let slot = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if !self.before(slot, self.heap[parent]) {
                break;
            }
            self.put(at, self.heap[parent]);
            at = parent;
        }
        self.put(at, slot);
        at
    }

    fn down(&mut self, mut at: usize) {
        let slot = self.heap[at];
        loop {
            let mut child = 2 * at + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.before(self.heap[child + 1], self.heap[child]) {
                child += 1;
            }
            if !self.before(self.heap[child], slot) {
                break;
            }
            self.put(at, self.heap[child]);
            at = child;
        }
        self.put(at, slot);
    }

    #[expect(clippy::cast_possible_truncation, reason = "there are no more places than slots, which are u32")]
    fn put(&mut self, at: usize, slot: u32) {
        self.heap[at] = slot;
        self.place[slot as usize] = at as u32;
    }
}
