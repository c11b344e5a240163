//! Streams as models write them, good and bad, in whole and in pieces.

use super::*;
use serde_json::json;

fn tools() -> Tools {
    let city = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    Tools::new(&[
        json!({"type": "function", "function": {"name": "f", "parameters": city}}),
        json!({"name": "g"}),
    ])
}

/// The events of a stream in pieces of `size` characters (0: in one), in a short notation.
fn read(template: &str, prompt: &str, tools: &Tools, text: &str, size: usize) -> Vec<String> {
    let format = AnswerFormat::of_template(template);
    let mut parser = AnswerParser::new(&format, prompt, tools);
    let characters: Vec<char> = text.chars().collect();
    let pieces = characters.chunks(if size == 0 { usize::MAX } else { size });
    let mut events: Vec<AnswerEvent> =
        pieces.flat_map(|piece| parser.push(&String::from_iter(piece))).collect();
    events.extend(parser.finish());
    let mut all: Vec<String> = Vec::new();
    for event in events {
        let (kind, text) = match event {
            AnswerEvent::Reasoning(text) => ("R", text),
            AnswerEvent::Text(text) => ("T", text),
            AnswerEvent::CallBegun { call, id, name } => {
                all.push(format!("{call} {name} {}", id.unwrap_or_default()).trim_end().to_string());
                continue;
            }
            AnswerEvent::CallArguments { json, .. } => ("A", json),
            AnswerEvent::CallFinished { call, arguments, .. } => {
                assert_eq!(all.last().map(String::as_str), Some(format!("A:{arguments}").as_str()));
                all.push(format!("{call}."));
                continue;
            }
            AnswerEvent::CallBroken { call, text, reason } => {
                let call = call.map_or("-".to_string(), |call| call.to_string());
                all.push(format!("{call}! {reason}|{text}"));
                continue;
            }
        };
        match all.last_mut().filter(|last| last.starts_with(&format!("{kind}:"))) {
            Some(last) => last.push_str(&text),
            None => all.push(format!("{kind}:{text}")),
        }
    }
    all
}

fn check(template: &str, prompt: &str, text: &str, expected: &[&str]) {
    for size in 0..8 {
        assert_eq!(read(template, prompt, &tools(), text, size), expected, "{text} by {size}");
    }
}

const HERMES: &str = "<tool_call></tool_call> <think></think>";

#[test]
fn reasoning_and_words() {
    check(HERMES, "", "<think>\nHm.\n\nSo.\n</think>\n\nYes, 1 < 2. ", &["R:Hm.\n\nSo.", "T:Yes, 1 < 2. "]);
    // The prompt has begun it.
    check(HERMES, "<|im_start|>assistant\n<think>\n", "Hm.</think>Yes.", &["R:Hm.", "T:Yes."]);
    check(HERMES, "<think>\n\n</think>\n\n", "Yes.", &["T:Yes."]);
    // It never ends.
    check(HERMES, "<think>", "Hm. <b>", &["R:Hm. <b>"]);
    // Inside an answer the marks are words, and white space stays what it is.
    check(HERMES, "", "\n Write <think> and </think>.\n", &["T:\n Write <think> and </think>.\n"]);
    check(HERMES, "", "<thin ice", &["T:<thin ice"]);
    check(HERMES, "", "  ", &["T:  "]);
    check("no marks", "", "<think>x</think>", &["T:<think>x</think>"]);
}

#[test]
fn without_tools_nothing_is_a_call() {
    let text = "<think>a</think>b <tool_call>{\"name\": \"f\"}</tool_call>";
    let expected = ["R:a", "T:b <tool_call>{\"name\": \"f\"}</tool_call>"];
    assert_eq!(read(HERMES, "", &Tools::default(), text, 0), expected);
    let text = "<|channel|>commentary to=functions.f<|message|>{}<|call|>";
    assert_eq!(read("<|channel|><|message|>", "", &Tools::default(), text, 0), ["T:{}"]);
}

#[test]
fn calls_in_json() {
    let one = "Look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"city\": \"</tool_call> \\\"{\"}}\n</tool_call>\n";
    let arguments = "A:{\"city\": \"</tool_call> \\\"{\"}";
    check(HERMES, "", one, &["T:Look.", "0 f", arguments, "0."]);
    let rest = "<tool_call>{\"arguments\": {\"x\": [1]}, \"id\": 7, \"name\": \"g\"}</tool_call> Done.";
    let expected = ["T:Look.", "0 f", arguments, "0.", "1 g 7", "A:{\"x\": [1]}", "1.", "T:Done."];
    check(HERMES, "", &format!("{one}{rest}"), &expected);
    // Arguments as a text, none, and null.
    let text = "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>";
    check(HERMES, "", text, &["0 f", "A:{\"a\": 1}", "0."]);
    check(HERMES, "", "<tool_call>{\"name\": \"g\"}</tool_call>", &["0 g", "A:{}", "0."]);
    check(HERMES, "", "<tool_call>{\"name\": \"g\", \"parameters\":null}", &["0 g", "A:{}", "0."]);
    // A list without an end mark, and words behind it.
    let list = "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}, \"id\": \"x1\"}, {\"name\": \"g\", \"arguments\": {}}] Hm";
    check("[TOOL_CALLS]", "", list, &["0 f", "A:{}", "0.", "1 g", "A:{}", "1.", "T:Hm"]);
    let granite = "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"city\": \"Köln\"}}]";
    check("<|tool_call|>", "", granite, &["0 f", "A:{\"city\": \"Köln\"}", "0."]);
    let phi = "<|tool_call|>[{\"name\": \"g\", \"arguments\": {}}]<|/tool_call|>";
    check("<|tool_call|><|/tool_call|>", "", phi, &["0 g", "A:{}", "0."]);
}

#[test]
fn calls_without_a_mark() {
    let llama = "<|python_tag|>";
    let call = "{\"name\": \"f\", \"parameters\": {\"city\": \"Ulm\"}}";
    let events = ["0 f", "A:{\"city\": \"Ulm\"}", "0."];
    check(llama, "", call, &events);
    check(llama, "", &format!("<|python_tag|>{call}"), &events);
    check(
        llama,
        "",
        &format!("{call}; {call}\nDone"),
        &["0 f", "A:{\"city\": \"Ulm\"}", "0.", "1 f", "A:{\"city\": \"Ulm\"}", "1.", "T:Done"],
    );
    // Other objects, and other names, are words.
    for text in [
        "{\"a\": 1}",
        "{\"name\": \"Ada\", \"parameters\": {}}",
        "{\"name\": 1}",
        "{",
        "{}",
        "{x",
        " {\"name\": \"f\"",
    ] {
        check(llama, "", text, &[&format!("T:{text}")]);
    }
    check(llama, "", &format!("See {call}"), &[&format!("T:See {call}")]);
    check(llama, "", "<|python_tag|>print(1)", &["T:print(1)"]);
}

#[test]
fn calls_with_a_name() {
    let mistral = "[TOOL_CALLS][ARGS]";
    let text = "Hm.[TOOL_CALLS]f[CALL_ID]abc[ARGS]{\"city\": \"[ARGS]\"}[TOOL_CALLS]g[ARGS]{}";
    check(mistral, "", text, &["T:Hm.", "0 f abc", "A:{\"city\": \"[ARGS]\"}", "0.", "1 g", "A:{}", "1."]);
    let deepseek = "<｜tool▁calls▁begin｜>```json";
    let text = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"city\": \"`\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    check(deepseek, "", text, &["0 f", "A:{\"city\": \"`\"}", "0.", "1 g", "A:{}", "1."]);
    let kimi = "<|tool_calls_section_begin|>";
    let text = "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>";
    check(kimi, "", text, &["0 f functions.f:0", "A:{}", "0."]);
}

#[test]
fn calls_in_tags() {
    let coder = "<function=<parameter=";
    let text = "<tool_call>\n<function=f>\n<parameter=city>\n12\n</parameter>\n<parameter=n>\n12\n</parameter>\n<parameter=t>\na </parameter x\n</parameter>\n</function>\n</tool_call>";
    check(coder, "", text, &["0 f", "A:{\"city\": \"12\", \"n\": 12, \"t\": \"a </parameter x\"}", "0."]);
    let glm = "<arg_key>";
    check(glm, "", "<tool_call>g</tool_call>", &["0 g", "A:{}", "0."]);
    let text = "<tool_call>g\n<arg_key>a</arg_key>\n<arg_value>{\"b\": [null]}</arg_value>\n</tool_call>";
    check(glm, "", text, &["0 g", "A:{\"a\": {\"b\": [null]}}", "0."]);
    let dsml = "｜DSML｜function_calls>";
    let text = "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"g\">\n<｜DSML｜parameter name=\"a\" string=\"true\">1</｜DSML｜parameter>\n<｜DSML｜parameter name=\"b\" string=\"false\">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>";
    check(dsml, "", text, &["0 g", "A:{\"a\": \"1\", \"b\": 1}", "0."]);
}

#[test]
fn calls_in_a_language() {
    let lfm = "<|tool_call_start|>";
    let text = "<|tool_call_start|>[f(city='Kö\\'ln', n=-1.5, ok=True), g(), g(a=[1, 'x', None], b={\"k\": (1, 2)}, c=\"\\u00fc\\n\")]<|tool_call_end|>Hm.";
    check(
        lfm,
        "",
        text,
        &[
            "0 f",
            "A:{\"city\":\"Kö'ln\",\"n\":-1.5,\"ok\":true}",
            "0.",
            "1 g",
            "A:{}",
            "1.",
            "2 g",
            "A:{\"a\":[1,\"x\",null],\"b\":{\"k\":[1,2]},\"c\":\"ü\\n\"}",
            "2.",
            "T:Hm.",
        ],
    );
    let olmo = "<function_calls>";
    let text = "<function_calls>\nf(city=\"Ulm\")\ng()\n</function_calls>";
    check(olmo, "", text, &["0 f", "A:{\"city\":\"Ulm\"}", "0.", "1 g", "A:{}", "1."]);
    let gemma = "<start_function_call>";
    let text = "<start_function_call>call:f{city:<escape>a,}\"b<escape>,n:[1,true],o:{k:<escape><escape>}}<end_function_call>";
    check(gemma, "", text, &["0 f", "A:{\"city\":\"a,}\\\"b\",\"n\":[1,true],\"o\":{\"k\":\"\"}}", "0."]);
}

#[test]
fn channels() {
    let harmony = "<|channel|><|message|>";
    let text = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>Look.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"city\": \"Ulm\"}<|call|>";
    check(harmony, "", text, &["R:Hm.", "T:Look.", "0 f", "A:{\"city\": \"Ulm\"}", "0."]);
    check(harmony, "", " to=functions.g<|channel|>commentary json<|message|>{}", &["0 g", "A:{}", "0."]);
    check(harmony, "", "<|channel|>final<|message|>Yes <|x|>.<|return|>", &["T:Yes <|x|>."]);
    check(harmony, "", "No header.", &["T:No header."]);
    check(harmony, "", "<|channel|>anal", &[]);
    let text = "<|channel|>commentary to=python<|message|>print(1)<|call|>";
    let events = read(harmony, "", &tools(), text, 0);
    assert_eq!(events[..2], ["0 python", "A:print(1)"]);
    assert!(events[2].starts_with("0! its arguments are not a JSON object: "), "{events:?}");
    assert!(events[2].ends_with("|print(1)"), "{events:?}");
}

#[test]
fn broken_calls_are_given_back_with_the_reason() {
    let broken = |template: &str, text: &str| -> Vec<String> {
        let whole = read(template, "", &tools(), text, 0);
        for size in 1..8 {
            assert_eq!(read(template, "", &tools(), text, size), whole, "{text} by {size}");
        }
        whole
    };
    let unclosed = "a <tool_call>{\"name\": \"f\", \"arguments\": {\"city\": \"Ul";
    let events = broken(HERMES, unclosed);
    assert_eq!(events[..3], ["T:a", "0 f", "A:{\"city\": \"Ul"]);
    assert_eq!(events[3], format!("0! it is not complete|{}", &unclosed[2..]));
    let words = "<tool_call>call f now</tool_call> sorry";
    let reason = "it is not a JSON object";
    assert_eq!(broken(HERMES, words), [&format!("-! {reason}|<tool_call>call f now</tool_call>"), "T:sorry"]);
    let nameless = "<tool_call>{\"arguments\": {}}</tool_call>";
    assert_eq!(broken(HERMES, nameless), [format!("-! it has no name|{nameless}")]);
    let no_object = "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>b";
    let events = broken(HERMES, no_object);
    assert!(events[2].starts_with("0! its arguments are not a JSON object: "), "{events:?}");
    assert_eq!(events[3], "T:b");
    // A call in a call is part of its text.
    let nested = "<tool_call><tool_call>{\"name\": \"f\"}</tool_call></tool_call>";
    let events = broken(HERMES, nested);
    assert_eq!(events[0], format!("-! {reason}|<tool_call><tool_call>{{\"name\": \"f\"}}</tool_call>"));
    assert_eq!(events[1], "T:</tool_call>");
    let lfm = broken("<|tool_call_start|>", "<|tool_call_start|>[f(1)]<|tool_call_end|>");
    assert_eq!(
        lfm,
        ["-! \"=\" was expected, not ')'|<|tool_call_start|>[f(1)]<|tool_call_end|>"].map(String::from)
    );
    let tags = "<tool_call>\n<function=f>\nx</tool_call>";
    let events = broken("<function=<parameter=", tags);
    assert_eq!(events[1], format!("0! <parameter= or </function> was expected|{tags}"));
    assert_eq!(broken(HERMES, "<tool_call>"), ["-! it is not complete|<tool_call>"]);
}

#[test]
fn hostile_streams_stay_small_and_end() {
    let deep = |open: &str, n: usize| open.repeat(n);
    let cases = [
        (HERMES, format!("<tool_call>{{\"name\": \"f\", \"arguments\": {}", deep("{\"a\":", 100_000))),
        (HERMES, format!("<tool_call>{{\"name\": \"f\", \"arguments\": {{\"a\": \"{}", deep("x", 3 << 20))),
        (HERMES, format!("<tool_call>{{\"{}", deep("k", 5000))),
        (HERMES, deep("<tool_call>", 100_000)),
        ("<|tool_call_start|>", format!("<|tool_call_start|>[f(a={}", deep("[", 100_000))),
        ("<|tool_call_start|>", format!("<|tool_call_start|>[f(a={}<|tool_call_end|>", deep("[", 100_000))),
        ("<function=<parameter=", format!("<tool_call><function={}", deep("f", 100_000))),
        ("<function=<parameter=", format!("<tool_call><function=f><parameter=a>{}", deep("f", 3 << 20))),
        ("[TOOL_CALLS][ARGS]", format!("[TOOL_CALLS]{}", deep("f", 100_000))),
        ("<|channel|><|message|>", format!("<|channel|>{}", deep("x", 100_000))),
        ("<|channel|><|message|>", format!("<|channel|>a to=f<|message|>{}", deep("{\"a\":", 1 << 20))),
        (HERMES, deep(" \n", 200_000)),
        (HERMES, deep("<", 200_000)),
    ];
    for (template, text) in cases {
        let format = AnswerFormat::of_template(template);
        let mut parser = AnswerParser::new(&format, "", &tools());
        let mut shown = 0;
        let mut take = |events: Vec<AnswerEvent>| {
            for event in events {
                shown += match event {
                    AnswerEvent::Text(text) | AnswerEvent::CallBroken { text, .. } => text.len(),
                    _ => 0,
                };
            }
        };
        let bytes = text.as_bytes();
        for piece in bytes.chunks(1000) {
            take(parser.push(std::str::from_utf8(piece).unwrap()));
            assert!(parser.held.taken.len() + parser.held.text().len() <= LONGEST_CALL + 1000);
        }
        take(parser.finish());
        // All of it comes out again, but for headers that are no words.
        assert!(shown + 100 >= text.len(), "{shown} of {}: {}", text.len(), &text[..80]);
    }
}

/// What comes after a beginning, read as the rest of an answer: where it begins and what it says.
fn rest(
    template: &str,
    prompt: &str,
    (reasoning, words): (&str, &str),
    text: &str,
) -> (String, Vec<AnswerEvent>) {
    let format = AnswerFormat::of_template(template);
    let beginning = format.beginning(prompt, reasoning, words);
    let mut parser = AnswerParser::new(&format, prompt, &tools()).after(&beginning);
    assert_eq!(parser.is_reasoning(), !reasoning.is_empty() && words.is_empty());
    let mut events = parser.push(text);
    events.extend(parser.finish());
    (beginning, events)
}

#[test]
fn answers_that_have_begun_go_on() {
    let text = |text: &str| AnswerEvent::Text(text.to_string());
    let reasoning = |text: &str| AnswerEvent::Reasoning(text.to_string());
    let harmony = "<|channel|><|message|>";
    let cases = [
        (HERMES, "", ("", "Hello "), "you", "Hello ", vec![text("you")]),
        (HERMES, "", ("", "2 <"), "/think", "2 <", vec![text("/think")]),
        (
            HERMES,
            "",
            ("Hm, ", ""),
            "so.</think>\n\nYes",
            "<think>\nHm, ",
            vec![reasoning("so."), text("Yes")],
        ),
        (HERMES, "", ("Hm.", "Yes"), ", I do", "<think>\nHm.\n</think>\n\nYes", vec![text(", I do")]),
        // The prompt has begun the reasoning.
        (HERMES, "<think>\n", ("Hm", ""), ".</think>A", "Hm", vec![reasoning("."), text("A")]),
        (HERMES, "<think>\n", ("", "A"), " B", "\n</think>\n\nA", vec![text(" B")]),
        (harmony, "", ("", "A"), " B", "<|channel|>final<|message|>A", vec![text(" B")]),
        (harmony, "", ("Hm", ""), ".", "<|channel|>analysis<|message|>Hm", vec![reasoning(".")]),
        (
            harmony,
            "",
            ("Hm.", "A"),
            "B",
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>A",
            vec![text("B")],
        ),
        // Nothing that marks reasoning: there are words alone.
        ("", "", ("", "A"), " B", "A", vec![text(" B")]),
    ];
    for (template, prompt, begun, more, beginning, events) in cases {
        assert_eq!(rest(template, prompt, begun, more), (beginning.to_string(), events), "{begun:?}");
    }
}
