//! What templates may and may not do.

use super::*;
use std::time::UNIX_EPOCH;

fn input() -> TemplateInput<'static> {
    TemplateInput {
        add_generation_prompt: true,
        bos: "<s>",
        eos: "</s>",
        extra: Value::UNDEFINED,
        now: UNIX_EPOCH,
    }
}

fn render(source: &str) -> Result<String> {
    ChatTemplate::from_source(source)?.apply(&[Message::new("user", "Hi & bye")], &input())
}

#[test]
fn the_usual_vocabulary_of_templates() {
    let cases = [
        (
            "{{ bos_token }}{% for m in messages %}{{ m['role'] }}: {{ m.content }}{{ eos_token }}{% endfor %}",
            "<s>user: Hi & bye</s>",
        ),
        ("{{ messages | tojson }}", r#"[{"role": "user", "content": "Hi & bye"}]"#),
        (
            "{{ messages | tojson(indent=2) }}",
            "[\n  {\n    \"role\": \"user\",\n    \"content\": \"Hi & bye\"\n  }\n]",
        ),
        ("{{ {'b': [], 'a': {}} | tojson(sort_keys=true, separators=(',', ':')) }}", r#"{"a":{},"b":[]}"#),
        ("{{ strftime_now('%d %B %Y') }}", "01 January 1970"),
        (
            "{% set ns = namespace(n=0) %}{% for m in 'abc' %}{% set ns.n = ns.n + 1 %}{% if m == 'b' %}{% break %}{% endif %}{% endfor %}{{ ns.n }}",
            "2",
        ),
        ("{%- macro twice(x) %}{{ x }}{{ x }}{% endmacro -%}{{ twice('ab') }}", "abab"),
        ("{{ tools is none }} {{ tools is defined }} {{ nothing is defined }}", "True True False"),
        (
            "{{ 'a,b'.split(',')[-1].upper() }}{{ '  x '.strip() }}{{ messages[0].get('name', 'none') }}",
            "Bxnone",
        ),
        (
            "{% for m in messages %}{% generation %}\n{{ m.content }}{% endgeneration %}{% endfor %}",
            "Hi & bye",
        ),
        (
            "{{ 'a\n\nb\n' | indent(2, first=true) }}|{{ 'a\n\nb' | indent(1, blank=true) }}",
            "  a\n\n  b\n|a\n \n b",
        ),
        (
            "{{ none is iterable }} {{ nothing is iterable }} {{ [] is iterable }} {{ 1 is iterable }}",
            "False True True False",
        ),
        ("a {%- generation -%} b {%- endgeneration %} {% set generation = 1 %}{{ generation }}", "ab 1"),
    ];
    for (source, expected) in cases {
        assert_eq!(render(source).unwrap_or_else(|error| panic!("{source}: {error}")), expected, "{source}");
    }
}

#[test]
fn broken_and_refusing_templates_are_errors_that_say_why() {
    let message = |source: &str| render(source).expect_err(source).to_string();
    assert!(message("{% if %}").starts_with("chat template: syntax error"));
    assert!(message("{{ raise_exception('roles must alternate') }}").contains("roles must alternate"));
    assert!(message("{{ messages | no_such_filter }}").contains("no_such_filter"));
    assert!(message("{{ nothing.at.all }}").contains("undefined"));
}

#[test]
fn endless_templates_end() {
    let loops = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
    assert!(render(loops).expect_err("too many steps").to_string().contains("fuel"));
    let output = "{% set line = 'x' * 100000 %}{% for a in range(100000) %}{{ line }}{% endfor %}";
    assert!(render(output).expect_err("too much output").to_string().contains("bytes of output"));
    assert!(render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").is_err());
}

#[test]
fn switches_are_the_variables_that_a_template_reads() {
    let variables = |source: &str, wish: ReasoningWish| {
        let variables = ChatTemplate::from_source(source).unwrap().reasoning_variables(&wish)?;
        Some(variables.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
    };
    let qwen = "{% if enable_thinking is defined and enable_thinking is false %}x{% endif %}";
    assert_eq!(variables(qwen, ReasoningWish::Off).as_deref(), Some("enable_thinking=False"));
    assert_eq!(variables(qwen, ReasoningWish::On).as_deref(), Some("enable_thinking=True"));
    assert_eq!(variables(qwen, ReasoningWish::Effort("low".into())), None);
    // A field of a message is not a switch.
    let harmony = "{% if reasoning_effort is not defined %}{% set reasoning_effort = 'medium' %}{% endif %}{{ reasoning_effort }}{% for message in messages %}{{ message.thinking }}{% endfor %}";
    assert_eq!(variables(harmony, ReasoningWish::Off), None);
    assert_eq!(
        variables(harmony, ReasoningWish::Effort("low".into())).as_deref(),
        Some("reasoning_effort=low")
    );
    let both = "{% if thinking %}{{ reasoning_effort }}{% endif %}";
    assert_eq!(
        variables(both, ReasoningWish::Effort("max".into())).as_deref(),
        Some("thinking=True reasoning_effort=max")
    );
    let seed = "{% if thinking_budget == 0 %}x{% endif %}";
    assert_eq!(variables(seed, ReasoningWish::On).as_deref(), Some(""));
    assert_eq!(variables(seed, ReasoningWish::Off).as_deref(), Some("thinking_budget=0"));
}

#[test]
fn older_files_of_rwkv_name_their_template() {
    let mut metadata = Metadata::default();
    metadata.set("tokenizer.chat_template", gleed_gguf::Value::Str("rwkv-world".to_string()));
    let template = ChatTemplate::from_metadata(&metadata).unwrap().unwrap();
    let turns = [Message::new("system", "Be brief."), Message::new("user", " Hi\n")];
    assert_eq!(template.apply(&turns, &input()).unwrap(), "System: Be brief.\n\nUser: Hi\n\nAssistant:");
}
