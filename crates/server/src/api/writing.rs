//! An answer in the words of an API, from one writer for both: those who want it as it comes and those who want it
//! whole. What a stream adds up to and what the whole says can therefore not differ.

use axum::response::Response;

use super::openai::usage::finish_reason;
use crate::answer::{Answer, Part};
use crate::arrival::Arrival;
use crate::errors::Problem;
use crate::sse::Source;

/// Takes in an answer and writes what is to be sent as it comes.
pub trait Writer: Send + 'static {
    /// What is sent before anything is known.
    fn begin(&mut self, _text: &mut String) {}

    /// Takes in the next part, of one of the choices.
    fn part(&mut self, choice: usize, part: Part, answer: &Answer, text: &mut String);

    /// Takes in that all parts have come.
    fn end(&mut self, answer: &Answer, text: &mut String);

    /// Tells why nothing more comes.
    fn problem(&mut self, problem: &Problem, text: &mut String);
}

/// Has a writer take in a whole answer; what it writes on the way is not sent.
pub async fn whole(writer: &mut impl Writer, answer: &mut Answer, arrival: &Arrival) -> Result<(), Problem> {
    let mut unsent = String::new();
    let model = answer.model().clone();
    while let Some(part) = answer.next().await {
        let (choice, part) = arrival.check(&model, part)?;
        note(&part, arrival);
        writer.part(choice, part, answer, &mut unsent);
        unsent.clear();
    }
    arrival.record.usage(answer.usage());
    writer.end(answer, &mut unsent);
    Ok(())
}

/// The response that sends what a writer writes, by way of `respond`.
pub fn streamed<W: Writer>(
    writer: W,
    answer: Answer,
    arrival: Arrival,
    respond: impl FnOnce(Written<W>) -> Response,
) -> Response {
    respond(Written { writer, answer, arrival, has_begun: false, has_ended: false })
}

/// An answer as it is written.
pub struct Written<W> {
    writer: W,
    answer: Answer,
    arrival: Arrival,
    has_begun: bool,
    has_ended: bool,
}

impl<W: Writer> Source for Written<W> {
    async fn next(&mut self) -> Option<String> {
        let mut text = String::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            self.writer.begin(&mut text);
        }
        while text.is_empty() {
            if self.has_ended {
                return None;
            }
            let part = self.answer.next().await;
            self.has_ended = !matches!(part, Some(Ok(_)));
            match part {
                Some(Ok((choice, part))) => {
                    note(&part, &self.arrival);
                    self.writer.part(choice, part, &self.answer, &mut text);
                }
                Some(Err(problem)) => {
                    let model = self.answer.model().clone();
                    let problem = self.arrival.failed(&model, problem);
                    self.writer.problem(&problem, &mut text);
                }
                None => {
                    self.arrival.record.usage(self.answer.usage());
                    self.writer.end(&self.answer, &mut text);
                }
            }
        }
        Some(text)
    }
}

/// Notes how an answer ended.
fn note(part: &Part, arrival: &Arrival) {
    if let Part::Finished(ending) = part {
        arrival.record.ended(finish_reason(ending));
    }
}
