//! Text that has come and is not decided yet, and what was taken of it since a call began.

/// A queue of text that marks are looked for in.
#[derive(Debug, Default)]
pub(super) struct Held {
    text: String,
    /// Up to here no mark begins: a search goes on from here when more text has come.
    searched: usize,
    /// What was taken while `recording`, to be given back when it turns out to be no call.
    pub taken: String,
    pub recording: bool,
}

impl Held {
    pub fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Removes the first `length` bytes.
    pub fn take(&mut self, length: usize) -> String {
        let rest = self.text.split_off(length);
        let front = std::mem::replace(&mut self.text, rest);
        self.searched = 0;
        if self.recording {
            self.taken.push_str(&front);
        }
        front
    }

    /// Removes everything that matches at the front.
    pub fn skip(&mut self, matches: impl Fn(char) -> bool) {
        let length = self.text.len() - self.text.trim_start_matches(matches).len();
        if length > 0 {
            self.take(length);
        }
    }

    /// Removes a mark from the front, if it is there.
    pub fn skip_mark(&mut self, mark: &str) -> bool {
        let found = !mark.is_empty() && self.text.starts_with(mark);
        if found {
            self.take(mark.len());
        }
        found
    }

    /// Whether all there is could become this mark.
    pub fn may_become(&self, mark: &str) -> bool {
        mark.len() > self.text.len() && mark.starts_with(self.text.as_str())
    }

    /// Where the first of these marks begins, and which it is: the one that begins first, of those the longest.
    /// No mark is empty.
    pub fn find(&mut self, marks: &[&str]) -> Option<(usize, usize)> {
        let found = marks.iter().enumerate().filter_map(|(which, mark)| {
            let start = self.text.floor_char_boundary(self.searched.saturating_sub(mark.len()));
            self.text[start..].find(mark).map(|at| (start + at, which))
        });
        let first = found.min_by_key(|&(at, which)| (at, usize::MAX - marks[which].len()));
        if first.is_none() {
            self.searched = self.text.len();
        }
        first
    }

    /// How much of the front cannot be part of any of these marks.
    pub fn free(&self, marks: &[&str]) -> usize {
        let longest = marks.iter().map(|mark| mark.len()).max().unwrap_or(1) - 1;
        let from = self.text.ceil_char_boundary(self.text.len().saturating_sub(longest));
        let is_begun = |at: &usize| {
            let end = &self.text[*at..];
            marks.iter().any(|mark| mark.len() > end.len() && mark.starts_with(end))
        };
        (from..self.text.len())
            .filter(|&at| self.text.is_char_boundary(at))
            .find(is_begun)
            .unwrap_or(self.text.len())
    }
}
