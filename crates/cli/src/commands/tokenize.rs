//! `gleed tokenize` and `gleed detokenize`: text to tokens and back.

use std::io::Read;

use anyhow::{Context, Result, bail};
use clap::Args;
use gleed_tokenizer::DecodeOptions;
use serde_json::json;

use crate::load;
use crate::output::{self, Align, Table};

/// Show the tokens of a text
#[derive(Args)]
pub struct Tokenize {
    /// A path, a name from `gleed list`, or `hf:owner/repository[:FORMAT]`
    model: String,

    /// The text; `-` reads standard input
    text: String,

    /// Leave out the tokens that the model puts at the beginning or end of a text
    #[arg(long)]
    no_special: bool,

    /// Take special tokens in the text literally, as the characters they are written with
    #[arg(long)]
    literal: bool,

    /// Print only the numbers, separated by spaces
    #[arg(long, conflicts_with = "json")]
    ids: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Show the text of tokens
#[derive(Args)]
pub struct Detokenize {
    /// A path, a name from `gleed list`, or `hf:owner/repository[:FORMAT]`
    model: String,

    /// The tokens
    #[arg(required = true, value_name = "TOKEN")]
    tokens: Vec<u32>,

    /// Leave out control tokens
    #[arg(long)]
    no_special: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `tokenize`.
pub fn tokenize(arguments: Tokenize) -> Result<()> {
    let file = load::open_file(&arguments.model)?;
    let tokenizer = load::tokenizer(&file)?;
    let text = text_or_stdin(&arguments.text)?;
    let tokens = tokenizer.encode_prompt(&text, !arguments.no_special, !arguments.literal);
    let piece = |id: &u32| tokenizer.token_text(*id).unwrap_or_default().into_owned();
    if arguments.json {
        let pieces: Vec<String> = tokens.iter().map(piece).collect();
        return output::print_json(&json!({ "tokens": tokens, "pieces": pieces, "count": tokens.len() }));
    }
    if arguments.ids {
        return output::print_line(tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
    }
    let mut table = Table::new(&[("token", Align::Right), ("text", Align::Left)]);
    for id in &tokens {
        table.row([(id.to_string(), None), (format!("{:?}", piece(id)), None)]);
    }
    output::print(table.render(output::colour(&std::io::stdout())))?;
    output::note(format!("{} tokens", tokens.len()));
    Ok(())
}

/// Runs `detokenize`.
pub fn detokenize(arguments: Detokenize) -> Result<()> {
    let file = load::open_file(&arguments.model)?;
    let tokenizer = load::tokenizer(&file)?;
    if let Some(unknown) = arguments.tokens.iter().find(|t| **t as usize >= tokenizer.vocab_size()) {
        bail!("token {unknown} is not in the vocabulary of {}", tokenizer.vocab_size());
    }
    let text = tokenizer
        .decode(&arguments.tokens, DecodeOptions { show_control: !arguments.no_special, continues: false });
    if arguments.json {
        return output::print_json(&json!({ "text": text }));
    }
    // As it is: the text of the tokens is the result.
    output::print(format_args!("{text}\n"))
}

/// The argument itself, or standard input for `-`.
fn text_or_stdin(argument: &str) -> Result<String> {
    if argument != "-" {
        return Ok(argument.to_string());
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("standard input is not UTF-8 text")?;
    Ok(text)
}
