//! The part of the zip format that wheels use: the directory at the end of the file (with its 64-bit
//! extension), members stored or deflated, and their checksums.

use std::io::{self, Read, Seek, SeekFrom, Write};

use flate2::{Crc, read::DeflateDecoder};

use super::{Fault, check, fault, matches, number};

const END: &[u8; 4] = b"PK\x05\x06";
const END_64: &[u8; 4] = b"PK\x06\x06";
const END_64_LOCATOR: &[u8; 4] = b"PK\x06\x07";
const DIRECTORY_ENTRY: &[u8; 4] = b"PK\x01\x02";
const LOCAL_HEADER: &[u8; 4] = b"PK\x03\x04";

/// A directory longer than this is not that of a package with a model in it.
const DIRECTORY_LIMIT: u64 = 64 << 20;

/// What the directory says about a member.
struct Member {
    encrypted: bool,
    method: u64,
    checksum: u64,
    stored_bytes: u64,
    bytes: u64,
    offset: u64,
}

/// Writes the one member whose name matches and gives its size.
pub fn extract(
    mut file: impl Read + Seek,
    pattern: &str,
    limit: u64,
    output: &mut impl Write,
) -> Result<u64, Fault> {
    let directory = read_directory(&mut file)?;
    let member = find(&directory, pattern)?;
    check(!member.encrypted, || format!("{pattern} is encrypted"))?;
    check(member.bytes <= limit, || {
        format!("{pattern} has {} bytes, at most {limit} were expected", member.bytes)
    })?;

    let mut header = [0; 30];
    file.seek(SeekFrom::Start(member.offset))?;
    file.read_exact(&mut header).map_err(fault("the member is missing"))?;
    check(header.starts_with(LOCAL_HEADER), || "the member is not where the directory says".to_owned())?;
    let names = number::<2>(&header, 26) + number::<2>(&header, 28);
    file.seek(SeekFrom::Current(names as i64))?;

    let stored = file.take(member.stored_bytes);
    // One byte more than promised, to notice when there is more than promised.
    let (written, checksum) = match member.method {
        0 => copy(stored.take(member.bytes + 1), output)?,
        8 => copy(DeflateDecoder::new(stored).take(member.bytes + 1), output)?,
        method => {
            return Err(Fault::Content(format!(
                "{pattern} is compressed by method {method}, only 0 and 8 are known"
            )));
        }
    };
    check(written == member.bytes, || {
        format!("{pattern} does not have the {} bytes it should have", member.bytes)
    })?;
    check(checksum == member.checksum, || format!("{pattern} is damaged: its checksum is wrong"))?;
    Ok(written)
}

/// Finds and reads the directory.
fn read_directory(file: &mut (impl Read + Seek)) -> Result<Vec<u8>, Fault> {
    // The end record is the last thing in the file but for a comment of at most 65,535 bytes.
    let length = file.seek(SeekFrom::End(0))?;
    let tail_start = length.saturating_sub(22 + 0xffff + 20);
    file.seek(SeekFrom::Start(tail_start))?;
    let mut tail = Vec::new();
    file.by_ref().take(length - tail_start).read_to_end(&mut tail)?;
    let is_end = |&at: &usize| {
        tail[at..].starts_with(END) && number::<2>(&tail, at + 20) == (tail.len() - at - 22) as u64
    };
    let end = (0..tail.len().saturating_sub(21))
        .rev()
        .find(is_end)
        .ok_or_else(|| Fault::Content("not a zip file".to_owned()))?;

    let mut size = number::<4>(&tail, end + 12);
    let mut offset = number::<4>(&tail, end + 16);
    if size == 0xffff_ffff || offset == 0xffff_ffff {
        let locator = end.checked_sub(20).filter(|&at| tail[at..].starts_with(END_64_LOCATOR));
        let locator = locator.ok_or_else(|| Fault::Content("the 64-bit end record is missing".to_owned()))?;
        let mut end_64 = [0; 56];
        file.seek(SeekFrom::Start(number::<8>(&tail, locator + 8)))?;
        file.read_exact(&mut end_64).map_err(fault("the 64-bit end record is missing"))?;
        check(end_64.starts_with(END_64), || "the 64-bit end record is missing".to_owned())?;
        (size, offset) = (number::<8>(&end_64, 40), number::<8>(&end_64, 48));
    }
    check(size <= DIRECTORY_LIMIT, || format!("the directory claims {size} bytes"))?;
    let mut directory = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.by_ref().take(size).read_to_end(&mut directory)?;
    check(directory.len() as u64 == size, || "the directory is cut short".to_owned())?;
    Ok(directory)
}

/// The one member whose name matches.
fn find(mut directory: &[u8], pattern: &str) -> Result<Member, Fault> {
    let mut found = None;
    while !directory.is_empty() {
        check(directory.len() >= 46 && directory.starts_with(DIRECTORY_ENTRY), || {
            "the directory is damaged".to_owned()
        })?;
        let length = |offset| number::<2>(directory, offset) as usize;
        let (name_end, extra_end) = (46 + length(28), 46 + length(28) + length(30));
        let entry_end = extra_end + length(32);
        check(entry_end <= directory.len(), || "the directory is damaged".to_owned())?;
        if matches(pattern, &String::from_utf8_lossy(&directory[46..name_end])) {
            check(found.is_none(), || format!("more than one member matches {pattern}"))?;
            let mut member = Member {
                encrypted: number::<2>(directory, 8) & 1 != 0,
                method: number::<2>(directory, 10),
                checksum: number::<4>(directory, 16),
                stored_bytes: number::<4>(directory, 20),
                bytes: number::<4>(directory, 24),
                offset: number::<4>(directory, 42),
            };
            widen(&mut member, &directory[name_end..extra_end])?;
            found = Some(member);
        }
        directory = &directory[entry_end..];
    }
    found.ok_or_else(|| Fault::Content(format!("no member matches {pattern}")))
}

/// Takes the numbers that do not fit into 32 bits from the extra field (record 1), where they stand in
/// this order, each only if its short form is all ones.
fn widen(member: &mut Member, mut extra: &[u8]) -> Result<(), Fault> {
    let mut wide: &[u8] = &[];
    while extra.len() >= 4 {
        let (id, end) = (number::<2>(extra, 0), 4 + number::<2>(extra, 2) as usize);
        check(end <= extra.len(), || "the directory is damaged".to_owned())?;
        if id == 1 {
            wide = &extra[4..end];
        }
        extra = &extra[end..];
    }
    for value in [&mut member.bytes, &mut member.stored_bytes, &mut member.offset] {
        if *value == 0xffff_ffff {
            check(wide.len() >= 8, || "a 64-bit size is missing in the directory".to_owned())?;
            *value = number::<8>(wide, 0);
            wide = &wide[8..];
        }
    }
    Ok(())
}

/// Copies all of `input`; gives its size and its CRC-32.
fn copy(mut input: impl Read, output: &mut impl Write) -> Result<(u64, u64), Fault> {
    let (mut checksum, mut copied, mut chunk) = (Crc::new(), 0, vec![0; 1 << 17]);
    loop {
        match input.read(&mut chunk) {
            Ok(0) => return Ok((copied, u64::from(checksum.sum()))),
            Ok(count) => {
                checksum.update(&chunk[..count]);
                output.write_all(&chunk[..count])?;
                copied += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    // Made by Python's zipfile: tests/archives.py.
    const STORED: &[u8] = include_bytes!("../../tests/data/stored.zip");
    const DEFLATED: &[u8] = include_bytes!("../../tests/data/deflated.zip");
    const WIDE: &[u8] = include_bytes!("../../tests/data/zip64.zip");

    fn take(archive: &[u8], pattern: &str, limit: u64) -> Result<Vec<u8>, Fault> {
        let mut output = Vec::new();
        let written = extract(Cursor::new(archive), pattern, limit, &mut output)?;
        assert_eq!(written, output.len() as u64);
        Ok(output)
    }

    /// The content that `tests/archives.py` gives the member.
    fn content() -> Vec<u8> {
        (0..3000u32).map(|i| (i * i / 7 % 251) as u8).collect()
    }

    #[test]
    fn members_come_out_as_they_went_in() {
        for archive in [STORED, DEFLATED, WIDE] {
            assert_eq!(take(archive, "*/data/part*.bin", 3000).unwrap(), content());
            assert_eq!(take(archive, "pkg/empty", 0).unwrap(), b"");
        }
    }

    #[test]
    fn bad_requests_are_errors() {
        let message = |pattern, limit| format!("{}", take(DEFLATED, pattern, limit).unwrap_err());
        assert_eq!(message("*.gguf", 9999), "no member matches *.gguf");
        assert_eq!(message("pkg/*", 9999), "more than one member matches pkg/*");
        assert_eq!(message("*.bin", 2999), "*.bin has 3000 bytes, at most 2999 were expected");
        assert_eq!(format!("{}", take(b"", "*", 1).unwrap_err()), "not a zip file");
    }

    #[test]
    fn damaged_archives_are_errors_and_never_wrong_content() {
        for archive in [STORED, DEFLATED, WIDE] {
            for length in 0..archive.len() {
                assert!(take(&archive[..length], "*.bin", 3000).is_err());
            }
            for index in 0..archive.len() {
                for flip in [0x01, 0x80, 0xff] {
                    let mut damaged = archive.to_vec();
                    damaged[index] ^= flip;
                    if let Ok(output) = take(&damaged, "*.bin", 3000) {
                        assert_eq!(output, content(), "byte {index} ^ {flip}");
                    }
                }
            }
        }
    }
}
