//! Where the labels of a picture go: beside their points, inside the frame, and not over each other.

use super::svg::Anchor;

/// Pixels of a character of a label, on average, and of a line.
const CHARACTER: f64 = 6.4;
const LINE: f64 = 14.0;

/// The room that something takes, in pixels.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Room {
    /// Of a text, about.
    pub fn of(text: &str, at: (f64, f64), anchor: Anchor) -> Room {
        let width = text.chars().count() as f64 * CHARACTER;
        let left = match anchor {
            Anchor::Start => at.0,
            Anchor::Middle => at.0 - width / 2.0,
            Anchor::End => at.0 - width,
        };
        Room { left, right: left + width, top: at.1 - LINE + 3.0, bottom: at.1 + 3.0 }
    }

    fn overlap(self, other: Room) -> f64 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        width.max(0.0) * height.max(0.0)
    }

    fn is_inside(self, outer: Room) -> bool {
        self.left >= outer.left
            && self.right <= outer.right
            && self.top >= outer.top
            && self.bottom <= outer.bottom
    }
}

/// The room that is taken, inside a frame.
pub struct Labels {
    frame: Room,
    taken: Vec<Room>,
}

impl Labels {
    /// Nothing is taken yet.
    pub fn new(frame: Room) -> Labels {
        Labels { frame, taken: Vec::new() }
    }

    /// Keeps labels away from here.
    pub fn take(&mut self, taken: Room) {
        self.taken.push(taken);
    }

    /// Keeps labels away from a line: a text across one is hard to read.
    pub fn take_line(&mut self, from: (f64, f64), to: (f64, f64)) {
        const STEPS: usize = 64;
        for step in 0..=STEPS {
            let share = step as f64 / STEPS as f64;
            let (x, y) = (from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1));
            self.take(Room { left: x - 4.0, right: x + 4.0, top: y - 3.0, bottom: y + 3.0 });
        }
    }

    /// A place for a label around a point, the one that covers least; it is taken then.
    pub fn find(&mut self, text: &str, point: (f64, f64)) -> ((f64, f64), Anchor) {
        let beside = |dx: f64, dy: f64, anchor| ((point.0 + dx, point.1 + dy), anchor);
        let candidates = [
            beside(10.0, 4.0, Anchor::Start),
            beside(-10.0, 4.0, Anchor::End),
            beside(10.0, 17.0, Anchor::Start),
            beside(10.0, -9.0, Anchor::Start),
            beside(-10.0, 17.0, Anchor::End),
            beside(-10.0, -9.0, Anchor::End),
            beside(0.0, 21.0, Anchor::Middle),
            beside(0.0, -12.0, Anchor::Middle),
            beside(24.0, 30.0, Anchor::Start),
            beside(24.0, -22.0, Anchor::Start),
        ];
        let cost = |at, anchor| {
            let label = Room::of(text, at, anchor);
            let covered = self.taken.iter().map(|taken| label.overlap(*taken)).filter(|area| *area > 0.0);
            // To touch two things is worse than to cover more of one.
            let covered: f64 = covered.map(|area| area + 100.0).sum();
            covered + if label.is_inside(self.frame) { 0.0 } else { 1e6 }
        };
        let best = candidates
            .into_iter()
            .min_by(|a, b| cost(a.0, a.1).total_cmp(&cost(b.0, b.1)))
            .unwrap_or(candidates[0]);
        self.take(Room::of(text, best.0, best.1));
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Room = Room { left: 0.0, right: 800.0, top: 0.0, bottom: 500.0 };

    #[test]
    fn labels_keep_apart() {
        let mut labels = Labels::new(FRAME);
        let places: Vec<_> = (0..4).map(|_| labels.find("pp512 · 420 t/s", (400.0, 300.0))).collect();
        for (index, a) in labels.taken.iter().enumerate() {
            for b in &labels.taken[..index] {
                assert_eq!(a.overlap(*b), 0.0, "{places:?}");
            }
            assert!(a.is_inside(FRAME));
        }
    }

    #[test]
    fn labels_are_not_written_across_lines() {
        let mut labels = Labels::new(FRAME);
        // Through the point, to where a label would be if there were nothing else.
        labels.take_line((300.0, 250.0), (500.0, 250.0));
        let lines = labels.taken.len();
        labels.find("pp512", (400.0, 250.0));
        let label = labels.taken[lines];
        assert!(labels.taken[..lines].iter().all(|taken| label.overlap(*taken) == 0.0), "{label:?}");
    }

    #[test]
    fn labels_at_the_edge_stay_inside() {
        let mut labels = Labels::new(FRAME);
        for corner in [(799.0, 250.0), (1.0, 250.0), (400.0, 1.0), (400.0, 499.0)] {
            let (at, anchor) = labels.find("tg64", corner);
            assert!(Room::of("tg64", at, anchor).is_inside(FRAME), "{corner:?}: {at:?}");
        }
    }
}
