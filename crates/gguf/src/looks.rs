//! Says what a file looks like that is not GGUF, so that its owner knows what went wrong.

/// What to tell the owner of a file that does not start with the magic.
pub fn not_gguf(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "is empty; download it again".into();
    }
    let start = &bytes[..bytes.len().min(4096)];
    if start.iter().all(|&byte| byte == 0) {
        return "is not a GGUF file: it starts with zeros, as an unfinished download does; download it again"
            .into();
    }
    let text = start.trim_ascii_start();
    let begins = |prefix: &str| {
        text.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    let (looks, advice) = if begins("version https://git-lfs") {
        ("a Git LFS pointer", "fetch the file itself with `git lfs pull`")
    } else if begins("<!doctype html") || begins("<html") {
        ("an HTML page", "the download went to a web page: use the link to the file itself")
    } else if safetensors(bytes) {
        ("a safetensors file", "convert it to GGUF first")
    } else if start.starts_with(b"PK\x03\x04") {
        ("a zip archive, perhaps a PyTorch checkpoint", "unpack it or convert it to GGUF first")
    } else if start.starts_with(b"\x1f\x8b") {
        ("gzip data", "unpack it first")
    } else if [b"lmgg", b"fmgg", b"tjgg"].iter().any(|magic| start.starts_with(*magic)) {
        ("a GGML file, the format before GGUF", "convert the model again with a current tool")
    } else if begins("{") || begins("[") {
        ("JSON", "name the .gguf file instead")
    } else {
        let head = &start[..start.len().min(8)];
        return format!(
            "is not a GGUF file: it starts with \"{}\" instead of \"GGUF\"; download it again",
            head.escape_ascii()
        );
    };
    format!("is not a GGUF file: it looks like {looks}; {advice}")
}

/// A safetensors file starts with the length of a JSON object, then the object.
fn safetensors(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else { return false };
    rest.first() == Some(&b'{') && u64::from_le_bytes(*length) <= rest.len() as u64
}
