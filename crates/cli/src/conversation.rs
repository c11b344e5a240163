//! What was said in a chat, and how much of it the model still sees.

use anyhow::Result;
use gleed_tokenizer::Message;

/// A conversation: what the model is told first, and questions with their answers.
pub struct Conversation {
    system: Option<Message>,
    /// Questions and answers in turn; a question without an answer is only ever the last one.
    messages: Vec<Message>,
    /// How many messages, from the oldest, the model does not see any more.
    forgotten: usize,
}

impl Conversation {
    /// A new one, with what the model is told first.
    pub fn new(system: Option<&str>) -> Conversation {
        let system = system.map(|text| Message::new("system", text));
        Conversation { system, messages: Vec::new(), forgotten: 0 }
    }

    /// Forgets everything but what the model is told first.
    pub fn clear(&mut self) {
        self.messages.clear();
        self.forgotten = 0;
    }

    /// Adds a question.
    pub fn ask(&mut self, question: &str) {
        self.messages.push(Message::new("user", question));
    }

    /// Adds the answer to the last question, with what the model thought before it: the template decides whether the
    /// model sees that again.
    pub fn answer(&mut self, answer: &str, reasoning: &str) {
        self.messages.push(Message::new("assistant", answer).with_reasoning(reasoning));
    }

    /// Removes the last question and its answer and returns the question.
    pub fn take_back(&mut self) -> Option<String> {
        let last = self.messages.iter().rposition(|message| message.role == "user")?;
        let question = self.messages.drain(last..).next().map(|message| message.content);
        if self.messages.len() <= self.forgotten {
            // There is room again for what came before.
            self.forgotten = 0;
        }
        question
    }

    /// What the model sees.
    pub fn seen(&self) -> Vec<Message> {
        self.seen_from(self.forgotten)
    }

    fn seen_from(&self, first: usize) -> Vec<Message> {
        self.system.iter().chain(&self.messages[first..]).cloned().collect()
    }

    /// Forgets the oldest turns when what is seen, `length` tokens of it, leaves no room for an answer in the context:
    /// the `most` tokens that an answer may have, at most a quarter of the context. Then as many are forgotten as
    /// leave half of the context free, since the model must read anew all that follows them. What the model is told
    /// first and the last question always stay. Returns how many turns were forgotten.
    pub fn shorten(
        &mut self,
        context: usize,
        most: Option<usize>,
        mut length: impl FnMut(&[Message]) -> Result<usize>,
    ) -> Result<usize> {
        let room = most.unwrap_or(usize::MAX).min(context / 4);
        if length(&self.seen())? + room <= context {
            return Ok(0);
        }
        let mut turns = 0;
        for first in self.forgotten + 1..self.messages.len() {
            if self.messages[first].role != "user" {
                continue;
            }
            (self.forgotten, turns) = (first, turns + 1);
            if length(&self.seen())? <= context / 2 {
                break;
            }
        }
        Ok(turns)
    }

    /// All of it, for people.
    pub fn transcript(&self) -> String {
        let message = |message: &Message| {
            let reasoning = message.reasoning_content.as_ref();
            let reasoning = reasoning.map(|text| format!("{}, thinking:\n{text}\n\n", message.role));
            format!("{}{}:\n{}\n\n", reasoning.unwrap_or_default(), message.role, message.content)
        };
        self.seen_from(0).iter().map(message).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many tokens as characters.
    fn length(messages: &[Message]) -> Result<usize> {
        Ok(messages.iter().map(|message| message.content.len()).sum())
    }

    fn seen(conversation: &Conversation) -> Vec<String> {
        conversation.seen().into_iter().map(|message| message.content).collect()
    }

    /// Ten turns of 20 tokens and a question of 10, after a system prompt of 10.
    fn long() -> Conversation {
        let mut conversation = Conversation::new(Some("Be brief ."));
        for turn in 0..10 {
            conversation.ask(&format!("question {turn}"));
            conversation.answer(&format!("answer {turn} ."), "");
        }
        conversation.ask("question x");
        conversation
    }

    #[test]
    fn the_oldest_turns_are_forgotten_when_the_context_is_full() {
        let mut conversation = long();
        // 220 tokens, and room for an answer of 75.
        assert_eq!(conversation.shorten(300, None, length).unwrap(), 0);
        assert_eq!(conversation.seen().len(), 22);
        // Room for one of 74 would be missing: half of the 292 are left to what is seen.
        assert_eq!(conversation.shorten(292, None, length).unwrap(), 4);
        assert_eq!(seen(&conversation)[..2], ["Be brief .", "question 4"]);
        assert_eq!(conversation.seen().len(), 14);
        // Shorter answers need less room.
        assert_eq!(conversation.shorten(150, Some(10), length).unwrap(), 0);
        // All of it is still there to be saved.
        assert!(conversation.transcript().contains("question 0"));
        conversation.answer("42.", "Six times seven.");
        assert!(
            conversation
                .transcript()
                .ends_with("assistant, thinking:\nSix times seven.\n\nassistant:\n42.\n\n")
        );
    }

    #[test]
    fn the_system_prompt_and_the_question_stay() {
        let mut conversation = long();
        assert_eq!(conversation.shorten(5, None, length).unwrap(), 10);
        assert_eq!(seen(&conversation), ["Be brief .", "question x"]);
        // There is nothing left to forget.
        assert_eq!(conversation.shorten(5, None, length).unwrap(), 0);
        assert_eq!(conversation.take_back().as_deref(), Some("question x"));
        // What was forgotten for the sake of that question is seen again.
        assert_eq!(conversation.seen().len(), 21);
        conversation.clear();
        assert_eq!(seen(&conversation), ["Be brief ."]);
        assert_eq!(conversation.take_back(), None);
    }
}
