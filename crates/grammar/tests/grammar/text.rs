//! Regular expressions and grammars.

use super::walk::{Model, Random};
use gleed_engine::TokenMask;
use gleed_grammar::Grammar;

#[test]
fn a_regular_expression_matches_as_a_whole() {
    let model = Model::stories();
    let date = Grammar::Regex(r"[0-9]{4}-[01][0-9]-[0-3][0-9]".to_string());
    assert!(model.accepts(&date, "2026-11-17"));
    for text in ["", "2026", "2026-11-17 ", "x2026-11-17", "2026-21-17"] {
        assert!(!model.accepts(&date, text), "{text}");
    }
    let anchored = Grammar::Regex(r"^a/\$$".to_string());
    assert!(model.accepts(&anchored, "a/$"));
    let escaped = Grammar::Regex(r"a\$".to_string());
    assert!(model.accepts(&escaped, "a$"));
    let mut random = Random(7);
    for _ in 0..50 {
        let tokens = model.walk(model.constraint(&date).as_mut(), &mut random, 50, &[]).unwrap();
        let text = model.text(&tokens);
        let digits = text.bytes().filter(u8::is_ascii_digit).count();
        assert!(text.len() == 10 && digits == 8 && text.as_bytes()[4] == b'-', "{text}");
    }
}

#[test]
fn a_lark_grammar() {
    let model = Model::stories();
    let sum = Grammar::Lark("start: NUMBER (\"+\" NUMBER)*\nNUMBER: /[0-9]{1,3}/\n".to_string());
    assert!(model.accepts(&sum, "1+22+333"));
    assert!(!model.accepts(&sum, "1+"));
    assert!(!model.accepts(&sum, "1++2"));
}

#[test]
fn a_complete_text_is_followed_by_the_end_alone_and_control_tokens_are_no_text() {
    let model = Model::stories();
    let mut constraint = model.constraint(&Grammar::Regex("</s>".to_string()));
    let size = model.tokenizer.vocab_size();
    // Logits may be longer than the vocabulary.
    let mut mask = TokenMask::none(size + 100);
    for byte in "</s>".bytes() {
        mask.clear();
        constraint.allow(&mut mask).unwrap();
        let controls = (0..size as u32).filter(|&token| model.tokenizer.is_control(token));
        assert!(controls.into_iter().all(|token| !mask.allows(token)));
        assert!((size..size + 100).all(|token| !mask.allows(token as u32)));
        let token = (0..size as u32).find(|&token| {
            mask.allows(token) && model.tokenizer.token_bytes(token).is_some_and(|bytes| *bytes == [byte])
        });
        constraint.accept(token.unwrap()).unwrap();
    }
    mask.clear();
    constraint.allow(&mut mask).unwrap();
    let allowed: Vec<u32> = (0..size as u32).filter(|&token| mask.allows(token)).collect();
    assert_eq!(allowed, model.tokenizer.ends_of_generation());
    constraint.accept(allowed[0]).unwrap();
}

#[test]
fn a_token_that_is_not_allowed_is_an_error_and_so_is_all_that_follows() {
    let model = Model::stories();
    let mut constraint = model.constraint(&Grammar::Regex("[0-9]+".to_string()));
    let word = model.tokenizer.token_id("a").unwrap();
    assert!(constraint.accept(word).is_err());
    assert!(constraint.allow(&mut TokenMask::none(model.tokenizer.vocab_size())).is_err());
}

#[test]
fn what_cannot_be_compiled_is_refused_in_one_line() {
    let model = Model::stories();
    for (grammar, what) in [
        (Grammar::Regex("(a".to_string()), "regular expression"),
        (Grammar::Regex(r"(a)\1".to_string()), "regular expression"),
        (Grammar::Regex("(?=a)b".to_string()), "regular expression"),
        (Grammar::Lark("start: missing".to_string()), "missing"),
        (Grammar::Lark("no rules".to_string()), "Lark grammar"),
        (Grammar::Lark("start: <|no_such_token|>".to_string()), "no_such_token"),
        (Grammar::Lark("start: start \"a\"".to_string()), "Lark grammar"),
    ] {
        let Err(error) = model.vocabulary.constraint(&grammar) else { panic!("{grammar:?} was compiled") };
        let message = error.to_string();
        assert!(message.contains(what) && !message.contains('\n'), "{message}");
    }
}

#[test]
fn a_grammar_in_gbnf() {
    let model = Model::stories();
    let list = "root ::= item (\", \" item)* \n\nitem ::= \"- \"? [a-z]+ \"end\" | \"(\" root \")\"\n";
    let grammar = Grammar::Gbnf(list.replace(" \n\n", "\n\n"));
    for text in ["xend", "- enxend", "endend", "aend, (bend, - cend)"] {
        assert!(model.accepts(&grammar, text), "{text}");
    }
    for text in ["", "end", "xen", "xend,yend", "(xend"] {
        assert!(!model.accepts(&grammar, text), "{text}");
    }
}
