//! Finds the end of a JSON value that comes in pieces. It knows strings and brackets only: whether the value is
//! right is checked when it is complete.

/// Where a scan stands.
#[derive(Debug, Default)]
pub(super) struct Scan {
    begun: bool,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Whether the value is a number or a word, which ends before what follows.
    is_bare: bool,
}

impl Scan {
    /// How many bytes of this text belong to the value, and whether it ends with them. White space before the value
    /// belongs to it.
    pub fn take(&mut self, text: &str) -> (usize, bool) {
        for (at, byte) in text.bytes().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => {
                        self.in_string = false;
                        if self.depth == 0 {
                            return (at + 1, true);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' if !self.begun => continue,
                b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t' if self.is_bare => return (at, true),
                _ if self.is_bare => {}
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return (at + 1, true);
                    }
                }
                _ if self.depth == 0 => self.is_bare = true,
                _ => {}
            }
            self.begun = true;
        }
        (text.len(), false)
    }
}
