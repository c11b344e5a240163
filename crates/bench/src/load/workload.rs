//! What is asked: the prompts of a run, each made from the seed and its number alone, so that two servers are asked
//! the same and a run can be repeated.

use serde_json::{Value, json};

use super::lengths::Lengths;
use super::probe::Known;
use super::prompts::{append_words, part};

/// One request, before it is put into words for a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// The text.
    pub prompt: String,
    /// The tokens that the prompt should have.
    pub prompt_tokens: usize,
    /// The tokens that the answer should have.
    pub output_tokens: usize,
    /// What its sampling begins with.
    pub seed: u64,
}

/// What the requests of a run are like.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Tokens of a prompt, without what it shares with others.
    pub input: Lengths,
    /// Tokens of an answer.
    pub output: Lengths,
    /// Tokens that prompts begin with in common.
    pub shared_prefix: usize,
    /// The share of prompts that begin so, from 0 to 1.
    pub share: f64,
    /// What all is drawn from.
    pub seed: u64,
}

impl Workload {
    /// The same kind of requests with nothing in common with these: for another round.
    pub fn another(&self, number: u64) -> Workload {
        Workload { seed: part(self.seed, number).next_u64(), ..self.clone() }
    }

    /// The request of a number, in words that the server will count as the lengths say.
    pub fn ask(&self, number: usize, known: &Known) -> Ask {
        let measure = known.measure;
        // 0 draws the prefix, which requests share.
        let mut random = part(self.seed, number as u64 + 1);
        let (input, output) = (self.input.draw(&mut random), self.output.draw(&mut random));
        let seed = random.next_u64() >> 33;
        let shares =
            self.shared_prefix > 0 && (random.below(1 << 32) as f64) < self.share * (1u64 << 32) as f64;
        let mut prompt = String::new();
        if shares {
            let words = measure.more_words(self.shared_prefix as f64);
            append_words(&mut prompt, words, &mut part(self.seed, 0));
        }
        append_words(&mut prompt, measure.words(input), &mut random);
        let prompt_tokens = input + if shares { self.shared_prefix } else { 0 };
        Ask { prompt, prompt_tokens, output_tokens: output, seed }
    }
}

/// How requests are put: which of the two APIs, and how tokens are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Manner {
    /// `/v1/chat/completions` instead of `/v1/completions`.
    pub chat: bool,
    /// 0 takes the likeliest token.
    pub temperature: f64,
}

impl Manner {
    /// Where requests go.
    pub fn path(&self) -> &'static str {
        if self.chat { "/v1/chat/completions" } else { "/v1/completions" }
    }

    /// The part of a body that is the prompt.
    pub fn prompt(&self, text: &str) -> Value {
        match self.chat {
            true => json!({ "messages": [{ "role": "user", "content": text }] }),
            false => json!({ "prompt": text }),
        }
    }

    /// The body of a request whose answer is streamed.
    pub fn body(&self, ask: &Ask, known: &Known) -> String {
        let mut body = self.prompt(&ask.prompt);
        body["model"] = json!(known.model);
        body["max_tokens"] = json!(ask.output_tokens);
        body["temperature"] = json!(self.temperature);
        body["stream"] = json!(true);
        if self.temperature > 0.0 {
            body["seed"] = json!(ask.seed);
        }
        if known.ignore_eos {
            body["ignore_eos"] = json!(true);
        }
        if known.stream_usage {
            body["stream_options"] = json!({ "include_usage": true });
        }
        body.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload() -> Workload {
        let (input, output) = ("20-40".parse().unwrap(), "5-9".parse().unwrap());
        Workload { input, output, shared_prefix: 30, share: 0.5, seed: 3 }
    }

    #[test]
    fn requests_are_made_from_the_seed_and_the_number_alone() {
        let (load, known) = (workload(), Known::plain());
        let forwards: Vec<Ask> = (0..200).map(|n| load.ask(n, &known)).collect();
        let backwards: Vec<Ask> = (0..200).rev().map(|n| load.ask(n, &known)).collect();
        assert!(forwards.iter().eq(backwards.iter().rev()));
        assert_ne!(load.another(1).ask(0, &known).prompt, forwards[0].prompt);
    }

    #[test]
    fn lengths_and_shared_beginnings_are_as_asked() {
        let (load, known) = (workload(), Known::plain());
        let asks: Vec<Ask> = (0..400).map(|n| load.ask(n, &known)).collect();
        let prefix = super::super::prompts::some_words(30, &mut part(3, 0));
        let (with, without): (Vec<&Ask>, Vec<&Ask>) =
            asks.iter().partition(|ask| ask.prompt.starts_with(&prefix));
        // 400 draws of one half: five standard deviations are 50.
        assert!((150..=250).contains(&with.len()), "{}", with.len());
        for (asks, prefix) in [(with, 30), (without, 0)] {
            for ask in asks {
                assert_eq!(ask.prompt.split(' ').count(), ask.prompt_tokens);
                assert!((prefix + 20..=prefix + 40).contains(&ask.prompt_tokens));
                assert!((5..=9).contains(&ask.output_tokens));
            }
        }
        let own: std::collections::HashSet<&str> = asks.iter().map(|ask| ask.prompt.as_str()).collect();
        assert_eq!(own.len(), asks.len(), "no two prompts are the same");
    }

    #[test]
    fn a_body_says_what_the_server_knows() {
        let ask = Ask { prompt: "a \"b\"".into(), prompt_tokens: 2, output_tokens: 7, seed: 9 };
        let body = |manner: Manner, known: &Known| -> Value {
            serde_json::from_str(&manner.body(&ask, known)).unwrap()
        };
        let greedy = body(Manner { chat: false, temperature: 0.0 }, &Known::plain());
        let usage = json!({"include_usage": true});
        let expected = json!({"model": "m", "prompt": "a \"b\"", "max_tokens": 7, "temperature": 0.0,
            "stream": true, "ignore_eos": true, "stream_options": usage});
        assert_eq!(greedy, expected);
        let bare = Known { ignore_eos: false, stream_usage: false, ..Known::plain() };
        let sampled = body(Manner { chat: true, temperature: 0.5 }, &bare);
        let expected = json!({"model": "m", "messages": [{"role": "user", "content": "a \"b\""}],
            "max_tokens": 7, "temperature": 0.5, "stream": true, "seed": 9});
        assert_eq!(sampled, expected);
    }
}
