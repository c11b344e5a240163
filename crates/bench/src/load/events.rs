//! Server-sent events out of bytes that come in pieces of any size. Only whole lines are looked at, so that a
//! character whose bytes come apart is never seen in parts.

use super::error::Failure;

/// The longest line that is waited for, in bytes.
const LONGEST_LINE: usize = 16 << 20;

/// What has come of a stream so far.
#[derive(Default)]
pub struct Events {
    /// A line whose end has not come yet.
    line: Vec<u8>,
    /// The `data:` lines of an event whose end has not come yet.
    data: Option<String>,
}

impl Events {
    /// Takes the next bytes and hands on the data of every event that they complete.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&str) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            if line.is_empty() {
                if let Some(data) = self.data.take() {
                    each(&data)?;
                }
                continue;
            }
            let line = std::str::from_utf8(line)
                .map_err(|_| Failure::NotUnderstood("a line of the stream is not UTF-8".to_string()))?;
            if let Some(data) = line.strip_prefix("data:") {
                let data = data.strip_prefix(' ').unwrap_or(data);
                match &mut self.data {
                    Some(before) => {
                        before.push('\n');
                        before.push_str(data);
                    }
                    None => self.data = Some(data.to_string()),
                }
            }
        }
        self.line.extend_from_slice(rest);
        let waiting = self.line.len() + self.data.as_ref().map_or(0, String::len);
        match waiting > LONGEST_LINE {
            true => Err(Failure::NotUnderstood("an event of the stream does not end".to_string())),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events_of(pieces: &[&[u8]]) -> Vec<String> {
        let mut events = Events::default();
        let mut found = Vec::new();
        for piece in pieces {
            events
                .feed(piece, |data| {
                    found.push(data.to_string());
                    Ok(())
                })
                .unwrap();
        }
        found
    }

    #[test]
    fn events_are_the_same_wherever_the_bytes_are_cut() {
        let stream = "event: message\r\ndata: {\"text\":\"schön 😀\"}\r\n\r\n: a comment\n\ndata:two\ndata: lines\n\n\
             id: 7\ndata: [DONE]\n\ndata: never ended\n";
        let expected = ["{\"text\":\"schön 😀\"}", "two\nlines", "[DONE]"];
        let bytes = stream.as_bytes();
        assert_eq!(events_of(&[bytes]), expected);
        for cut in 0..=bytes.len() {
            assert_eq!(events_of(&[&bytes[..cut], &bytes[cut..]]), expected, "cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(events_of(&single), expected);
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_for_ever() {
        let mut events = Events::default();
        let piece = vec![b'x'; 1 << 20];
        let failed = (0..32).find_map(|_| events.feed(&piece, |_| Ok(())).err());
        assert!(matches!(failed, Some(Failure::NotUnderstood(_))));
        assert!(Events::default().feed(b"data: \xff\n", |_| Ok(())).is_err());
    }
}
