//! Runs of one set of characters, at most `most` at a time, with an optional character before them.

/// `prefix?[set]{least,most}`
pub(crate) struct Runs {
    /// What may stand once before the run.
    pub prefix: fn(char) -> bool,
    /// What the run is made of.
    pub set: fn(char) -> bool,
    /// The fewest characters of a run.
    pub least: usize,
    /// The most characters of a run.
    pub most: usize,
}

impl Runs {
    /// `[set]+`
    pub(super) const fn of(set: fn(char) -> bool) -> Runs {
        Runs { prefix: |_| false, set, least: 1, most: usize::MAX }
    }

    /// `[set]{1,most}`
    pub(super) const fn up_to(most: usize, set: fn(char) -> bool) -> Runs {
        Runs { most, ..Runs::of(set) }
    }

    /// `prefix?[set]+`
    pub(super) const fn after(prefix: fn(char) -> bool, set: fn(char) -> bool) -> Runs {
        Runs { prefix, ..Runs::of(set) }
    }

    pub(super) fn match_at_start(&self, text: &str) -> Option<usize> {
        let first = text.chars().next()?;
        let with_prefix = if (self.prefix)(first) {
            self.length(&text[first.len_utf8()..]).map(|length| first.len_utf8() + length)
        } else {
            None
        };
        with_prefix.or_else(|| self.length(text))
    }

    fn length(&self, text: &str) -> Option<usize> {
        let (mut count, mut end) = (0, 0);
        for c in text.chars().take(self.most).take_while(|&c| (self.set)(c)) {
            count += 1;
            end += c.len_utf8();
        }
        (count >= self.least).then_some(end)
    }
}
