//! The fields of a protocol buffer, one after the other: all that reading a SentencePiece model needs.

/// A field's value.
#[derive(Debug, PartialEq)]
pub enum Field<'a> {
    /// A number or a choice.
    Number(u64),
    /// Four bytes.
    Four([u8; 4]),
    /// A text, bytes or another message.
    Bytes(&'a [u8]),
    /// Eight bytes, which nothing here needs.
    Eight,
}

/// The fields of a message with their numbers; the last is an error if the message is cut off.
pub fn fields(mut message: &[u8]) -> impl Iterator<Item = Result<(u64, Field<'_>), &'static str>> {
    std::iter::from_fn(move || {
        if message.is_empty() {
            return None;
        }
        let field = next(&mut message).ok_or("is cut off or not a SentencePiece model");
        if field.is_err() {
            message = &[];
        }
        Some(field)
    })
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let tag = number(rest)?;
    let field = match tag & 7 {
        0 => Field::Number(number(rest)?),
        1 => {
            take(rest, 8)?;
            Field::Eight
        }
        2 => {
            let length = usize::try_from(number(rest)?).ok()?;
            Field::Bytes(take(rest, length)?)
        }
        5 => Field::Four(take(rest, 4)?.try_into().ok()?),
        _ => return None,
    };
    Some((tag >> 3, field))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, left) = rest.split_first()?;
        *rest = left;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_cut_ones_are_errors() {
        let message = [0x0a, 2, b'h', b'i', 0x15, 0, 0, 0x80, 0x3f, 0x18, 0xac, 0x02];
        let all: Vec<_> = fields(&message).map(Result::unwrap).collect();
        assert_eq!(
            all,
            [(1, Field::Bytes(b"hi")), (2, Field::Four([0, 0, 0x80, 0x3f])), (3, Field::Number(300))]
        );
        for length in 1..message.len() {
            let whole = [4, 9].contains(&length);
            assert_eq!(fields(&message[..length]).all(|field| field.is_ok()), whole, "{length}");
        }
        assert!(
            fields(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1])
                .any(|field| field.is_err())
        );
        assert!(fields(&[0xff; 40]).any(|field| field.is_err()));
    }
}
