//! The marks of the families, each found by a text that its chat template has. The first that fits holds.

use super::format::{Calls, Harmony, JsonCalls, Mark, NamedCalls, TaggedCalls};
use super::marks::{Reasoning, Region};

const fn mark(text: &'static str) -> Mark {
    Mark::Borrowed(text)
}

/// What a template has, and what then stands before and behind reasoning.
const REASONING: [(&str, &str, &str); 7] = [
    // Mistral
    ("[THINK]", "[THINK]", "[/THINK]"),
    // Command A and R7B
    ("<|START_THINKING|>", "<|START_THINKING|>", "<|END_THINKING|>"),
    // Gemma 4
    ("<|channel>", "<|channel>thought\n", "<channel|>"),
    // Seed-OSS
    ("<seed:think>", "<seed:think>", "</seed:think>"),
    // MiniMax M3
    ("<mm:think>", "<mm:think>", "</mm:think>"),
    // Apriel
    ("[BEGIN FINAL RESPONSE]", "Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]"),
    // Qwen 3, DeepSeek, GLM, SmolLM 3, Granite, Nemotron and most others
    ("think>", "<think>", "</think>"),
];

/// What a template has, and the marks around an answer that are not part of it.
const AROUND: [(&str, &[&str]); 4] = [
    ("<|START_RESPONSE|>", &["<|START_RESPONSE|>", "<|END_RESPONSE|>"]),
    ("<|START_TEXT|>", &["<|START_TEXT|>", "<|END_TEXT|>"]),
    // Llama 4 puts words there too.
    ("<|python_start|>", &["<|python_end|>"]),
    ("<response></response>", &["<response>", "</response>"]),
];

/// What stands before and behind reasoning in the answers of a model with this template.
pub(super) fn reasoning(template: &str) -> Option<Reasoning<Mark>> {
    if let Some(ending) = hy_ending(template) {
        return Some(Reasoning {
            begin: format!("<think{ending}>").into(),
            end: format!("</think{ending}>").into(),
        });
    }
    let (_, begin, end) = REASONING.iter().find(|(shown, ..)| template.contains(shown))?;
    Some(Reasoning { begin: mark(begin), end: mark(end) })
}

/// Marks around an answer that are not part of it.
pub(super) fn around(template: &str) -> Vec<Mark> {
    let marks = AROUND.iter().filter(|(shown, _)| template.contains(shown));
    marks.flat_map(|(_, marks)| marks.iter().map(|text| mark(text))).collect()
}

/// What stands at the end of every mark's name in the template of Hy3: `<think:opensource>`.
fn hy_ending(template: &str) -> Option<&str> {
    let (_, rest) = template.split_once("set HYTK = '")?;
    rest.split_once('\'').map(|(ending, _)| ending)
}

/// How a model with this template marks its calls.
pub(super) fn calls(template: &str) -> Option<Calls> {
    let has = |text: &str| template.contains(text);
    let calls = if has("<|channel|>") && has("<|message|>") {
        harmony()
    } else if has("<|tool_call>") && has("<|\"|>") {
        gemma("<|tool_call>", "<tool_call|>", "<|\"|>")
    } else if has("<start_function_call>") {
        gemma("<start_function_call>", "<end_function_call>", "<escape>")
    } else if let Some(ending) = hy_ending(template) {
        separated(ending)
    } else if has("｜DSML｜") {
        // DeepSeek V3.2 and V4
        let word = if has("function_calls>") { "function_calls" } else { "tool_calls" };
        invoke(&format!("｜DSML｜{word}"), "｜DSML｜invoke", "｜DSML｜parameter")
    } else if has("<minimax:tool_call>") {
        invoke("minimax:tool_call", "invoke", "parameter")
    } else if has("<function name=") && has("<param name=") {
        // MiniCPM 5: nothing stands around the calls, so that each call is its own region.
        alone("<function name=\"", "\">", "<param name=\"", "\"", ">", "</param>", "</function>")
    } else if has("<seed:tool_call>") {
        function_tags("<seed:tool_call>", "</seed:tool_call>")
    } else if has("<function=") && has("<parameter=") {
        // Qwen 3 Coder, Qwen 3.5, Nemotron 3
        function_tags("<tool_call>", "</tool_call>")
    } else if has("<arg_key>") {
        // GLM 4.5 to 4.7, Ling, Laguna
        arguments()
    } else if has("<｜tool▁calls▁begin｜>") {
        deepseek(has("```json"))
    } else if has("<|tool_calls_section_begin|>") {
        // Kimi K2
        Calls::Named(NamedCalls {
            region: Some(region("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>")),
            begin: mark("<|tool_call_begin|>"),
            id: mark(""),
            arguments: mark("<|tool_call_argument_begin|>"),
            end: mark("<|tool_call_end|>"),
        })
    } else if has("[TOOL_CALLS]") && has("[ARGS]") {
        // Mistral from Small 3.1 on
        Calls::Named(NamedCalls {
            region: None,
            begin: mark("[TOOL_CALLS]"),
            id: mark("[CALL_ID]"),
            arguments: mark("[ARGS]"),
            end: mark(""),
        })
    } else if has("<function=") {
        // Functionary 3.1
        Calls::Named(NamedCalls {
            region: None,
            begin: mark("<function="),
            id: mark(""),
            arguments: mark(">"),
            end: mark("</function>"),
        })
    } else if has("<|tool_call_start|>") || has("<|tool_list_start|>") {
        // LFM 2
        Calls::Python(region("<|tool_call_start|>", "<|tool_call_end|>"))
    } else if has("<function_calls>") {
        // OLMo 3
        Calls::Python(region("<function_calls>", "</function_calls>"))
    } else if has("<|tools_prefix|>") {
        // Apertus
        let region = region("<|tools_prefix|>", "<|tools_suffix|>");
        Calls::Json(JsonCalls { region, bare: false, keyed: true })
    } else if has("]<]minimax[>[") {
        // MiniMax M3 nests tags by the shape of the arguments: not read yet.
        return None;
    } else {
        return json(template);
    };
    Some(calls)
}

/// What a template has, and what then stands before and behind calls in JSON.
const JSON: [(&str, &str, &str); 11] = [
    ("[TOOL_CALLS]", "[TOOL_CALLS]", ""),
    ("<|START_ACTION|>", "<|START_ACTION|>", "<|END_ACTION|>"),
    ("<|function_call|>", "<|function_call|>", ""),
    ("<TOOLCALL>", "<TOOLCALL>", "</TOOLCALL>"),
    ("<tool_calls>", "<tool_calls>", "</tool_calls>"),
    // Phi 4 mini
    ("<|/tool_call|>", "<|tool_call|>", "<|/tool_call|>"),
    // Hermes, Qwen 2.5 and 3, Granite 4, SmolLM 3, Falcon H1
    ("<tool_call>", "<tool_call>", "</tool_call>"),
    // Granite 3
    ("<|tool_call|>", "<|tool_call|>", ""),
    // Llama 4 and 3, where the mark is often left out
    ("<|python_start|>", "<|python_start|>", "<|python_end|>"),
    ("<|python_tag|>", "<|python_tag|>", ""),
    ("{\"name\": function name, \"parameters\":", "<|python_tag|>", ""),
];

fn json(template: &str) -> Option<Calls> {
    let (_, open, close) = JSON.iter().find(|(shown, ..)| template.contains(shown))?;
    let bare = open.starts_with("<|python");
    Some(Calls::Json(JsonCalls { region: region(open, close), bare, keyed: false }))
}

fn region(open: &'static str, close: &'static str) -> Region<Mark> {
    Region { open: mark(open), close: mark(close) }
}

/// gpt-oss
fn harmony() -> Calls {
    Calls::Harmony(Harmony {
        start: mark("<|start|>"),
        channel: mark("<|channel|>"),
        message: mark("<|message|>"),
        end: mark("<|end|>"),
        call: mark("<|call|>"),
        last: mark("<|return|>"),
        constrain: mark("<|constrain|>"),
    })
}

fn gemma(open: &'static str, close: &'static str, quote: &'static str) -> Calls {
    Calls::Gemma { region: region(open, close), quote: mark(quote) }
}

/// `<outer><invoke name="…"><parameter name="…">…</parameter></invoke></outer>`
fn invoke(outer: &str, invoke: &str, parameter: &str) -> Calls {
    Calls::Tagged(TaggedCalls {
        region: Region { open: format!("<{outer}>").into(), close: format!("</{outer}>").into() },
        begin: format!("<{invoke} name=\"").into(),
        name_end: mark("\">"),
        key: format!("<{parameter} name=\"").into(),
        key_end: mark("\""),
        value: mark(">"),
        value_end: format!("</{parameter}>").into(),
        end: format!("</{invoke}>").into(),
    })
}

/// `<function=name><parameter=key>value</parameter></function>`
fn function_tags(open: &'static str, close: &'static str) -> Calls {
    Calls::Tagged(TaggedCalls {
        region: region(open, close),
        begin: mark("<function="),
        name_end: mark(">"),
        key: mark("<parameter="),
        key_end: mark(">"),
        value: mark(""),
        value_end: mark("</parameter>"),
        end: mark("</function>"),
    })
}

/// Calls without anything around them: a call's own tags open and close its region.
fn alone(
    open: &'static str,
    name_end: &'static str,
    key: &'static str,
    key_end: &'static str,
    value: &'static str,
    value_end: &'static str,
    close: &'static str,
) -> Calls {
    Calls::Tagged(TaggedCalls {
        region: region(open, close),
        begin: mark(""),
        name_end: mark(name_end),
        key: mark(key),
        key_end: mark(key_end),
        value: mark(value),
        value_end: mark(value_end),
        end: mark(""),
    })
}

/// `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>`
fn arguments() -> Calls {
    alone("<tool_call>", "", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>")
}

/// `<tool_calls><tool_call>name<tool_sep><arg_key>key</arg_key><arg_value>value</arg_value></tool_call></tool_calls>`,
/// with an ending on every name.
fn separated(ending: &str) -> Calls {
    let tag = |name: &str| -> Mark { format!("<{name}{ending}>").into() };
    Calls::Tagged(TaggedCalls {
        region: Region { open: tag("tool_calls"), close: tag("/tool_calls") },
        begin: tag("tool_call"),
        name_end: tag("tool_sep"),
        key: tag("arg_key"),
        key_end: tag("/arg_key"),
        value: tag("arg_value"),
        value_end: tag("/arg_value"),
        end: tag("/tool_call"),
    })
}

/// DeepSeek V3 and R1 fence the arguments as JSON, V3.1 does not.
fn deepseek(fenced: bool) -> Calls {
    let (begin, arguments) = match fenced {
        true => ("<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n```json\n"),
        false => ("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"),
    };
    Calls::Named(NamedCalls {
        region: Some(region("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")),
        begin: mark(begin),
        id: mark(""),
        arguments: mark(arguments),
        end: mark("<｜tool▁call▁end｜>"),
    })
}
