//! A form that begins where reasoning ends: what a model thinks before its answer is free.

use std::sync::Arc;

use gleed_engine::{Constraint, Result, TokenMask};
use gleed_tokenizer::marks::{Calls, MarkPart};
use gleed_tokenizer::{AnswerFormat, Tokenizer};

/// Holds an answer to a constraint from the end of reasoning on.
pub struct AfterReasoning {
    inner: Box<dyn Constraint>,
    state: State,
    /// What ends reasoning, in bytes, control tokens as they are written.
    end: Vec<u8>,
    /// The token that begins reasoning, where it is one.
    begin: Option<u32>,
    /// Everything but the tokens that end an answer, as a set of tokens.
    free: Vec<u32>,
    /// The last bytes of the reasoning, enough to find its end in.
    last: Vec<u8>,
    tokenizer: Arc<Tokenizer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing has come: the answer, or the beginning of reasoning.
    Start,
    Reasoning,
    Answer,
}

impl AfterReasoning {
    /// The same constraint, but for reasoning before it where the model's format has any. `is_begun` says that the
    /// prompt ends inside of it.
    pub fn of(
        inner: Box<dyn Constraint>,
        format: &AnswerFormat,
        is_begun: bool,
        tokenizer: &Arc<Tokenizer>,
    ) -> Box<dyn Constraint> {
        let marks = format.marks();
        let (begin, end) = match (&marks.reasoning, &marks.calls) {
            // Its messages have headers: whatever comes before that of the answer is free.
            (_, Some(Calls::Harmony(harmony))) => {
                let header =
                    [&harmony.channel[..], &[MarkPart::Text("final".to_string())], &harmony.message].concat();
                (None, bytes(&header, tokenizer))
            }
            (Some(reasoning), _) => (Some(&reasoning.begin), bytes(&reasoning.end, tokenizer)),
            _ => return inner,
        };
        let state = if is_begun || begin.is_none() { State::Reasoning } else { State::Start };
        let begin = begin.and_then(|mark| match &mark[..] {
            [MarkPart::Token(token)] => Some(*token),
            [MarkPart::Text(text)] => tokenizer.token_id(text.trim()),
            _ => None,
        });
        let mut free = vec![u32::MAX; tokenizer.vocab_size().div_ceil(32)];
        for &token in tokenizer.ends_of_generation() {
            free[token as usize / 32] &= !(1 << (token % 32));
        }
        let (last, tokenizer) = (Vec::new(), tokenizer.clone());
        Box::new(AfterReasoning { inner, state, end, begin, free, last, tokenizer })
    }
}

/// A mark as it is written, without the white space around it.
fn bytes(mark: &[MarkPart], tokenizer: &Tokenizer) -> Vec<u8> {
    let part = |part: &MarkPart| match part {
        MarkPart::Token(token) => tokenizer.token_bytes(*token).unwrap_or_default().into_owned(),
        MarkPart::Text(text) => text.as_bytes().to_vec(),
    };
    let bytes: Vec<u8> = mark.iter().flat_map(part).collect();
    bytes.trim_ascii().to_vec()
}

impl Constraint for AfterReasoning {
    fn allow(&mut self, mask: &mut TokenMask) -> Result<()> {
        match self.state {
            State::Reasoning => mask.allow_words(&self.free),
            State::Answer => self.inner.allow(mask)?,
            State::Start => {
                self.inner.allow(mask)?;
                self.begin.iter().for_each(|&token| mask.allow(token));
            }
        }
        Ok(())
    }

    fn accept(&mut self, token: u32) -> Result<()> {
        match self.state {
            State::Start if Some(token) == self.begin => self.state = State::Reasoning,
            State::Start | State::Answer => {
                self.state = State::Answer;
                self.inner.accept(token)?;
            }
            State::Reasoning => {
                self.last.extend_from_slice(&self.tokenizer.token_bytes(token).unwrap_or_default());
                if self.last.trim_ascii_end().ends_with(&self.end) {
                    self.state = State::Answer;
                }
                // A token may bring the end's last byte with white space behind it.
                let kept = self.last.len().saturating_sub(2 * self.end.len() + 64);
                self.last.drain(..kept);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gleed_gguf::Gguf;
    use gleed_tokenizer::Special;

    /// Allows one token, and counts what it takes in.
    struct Only(u32, usize);

    impl Constraint for Only {
        fn allow(&mut self, mask: &mut TokenMask) -> Result<()> {
            mask.allow(self.0);
            Ok(())
        }

        fn accept(&mut self, _: u32) -> Result<()> {
            self.1 += 1;
            Ok(())
        }
    }

    #[test]
    fn reasoning_is_free_up_to_its_end() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories15M-q8_0.gguf");
        let file = Gguf::open(path.as_ref()).unwrap();
        let tokenizer = Arc::new(Tokenizer::from_metadata(file.metadata()).unwrap());
        let format = AnswerFormat::of_template("<think>");
        let allowed = |constraint: &mut Box<dyn Constraint>| {
            let mut mask = TokenMask::none(tokenizer.vocab_size());
            constraint.allow(&mut mask).unwrap();
            (0..tokenizer.vocab_size() as u32).filter(|&token| mask.allows(token)).count()
        };
        let of = |format: &AnswerFormat, is_begun| {
            AfterReasoning::of(Box::new(Only(5, 0)), format, is_begun, &tokenizer)
        };
        let mut constraint = of(&format, true);
        let ends = tokenizer.ends_of_generation().len();
        for token in tokenizer.encode("Let me see: <think> </thin", Special::Literal) {
            assert_eq!(allowed(&mut constraint), tokenizer.vocab_size() - ends);
            constraint.accept(token).unwrap();
        }
        for token in tokenizer.encode("</think>\n", Special::Literal) {
            constraint.accept(token).unwrap();
        }
        assert_eq!(allowed(&mut constraint), 1);
        // Where the prompt is not inside of reasoning, and in formats without any, the form holds from the start.
        assert_eq!(allowed(&mut of(&format, false)), 1);
        assert_eq!(allowed(&mut of(&AnswerFormat::of_template(""), true)), 1);
    }
}
