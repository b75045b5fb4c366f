//! Malformed input for the tests of every parser: noise, and samples that are cut, spliced and
//! changed. A seed always gives the same bytes.

use crate::random::Rng;

/// The number of bytes that a test gives each parser in total.
pub const AMOUNT: usize = 10_000_000;

/// Replacements for numbers: limits of integer types, and invalid numbers.
const NUMBERS: [&str; 18] = [
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1844674407370955161",
    "1e308",
    "1e-400",
    "nan",
    "0x7fffffffffffffff",
    "99999999999999999999999999",
];

/// Gives `parse` pieces of `amount` bytes in total, made from `seed`: a quarter is raw noise, a
/// quarter consists of words of the samples, half are damaged samples. For tests that a parser
/// never panics, whatever the bytes.
///
/// # Panics
/// If there is no sample, or an empty one, and if `parse` panics.
pub fn feed(seed: u64, samples: &[Vec<u8>], amount: usize, mut parse: impl FnMut(&[u8])) {
    assert!(samples.iter().all(|s| !s.is_empty()) && !samples.is_empty());
    let mut rng = Rng::new(seed);
    let mut given = 0;
    while given < amount {
        let piece = if given < amount / 4 {
            noise(&mut rng)
        } else if given < amount / 2 {
            words(samples, &mut rng)
        } else {
            damaged(samples, &mut rng)
        };
        parse(&piece);
        // An empty piece counts as a byte.
        given += piece.len().max(1);
    }
}

fn below(rng: &mut Rng, n: usize) -> usize {
    rng.below(n as u64) as usize
}

/// Returns fewer than 4096 random bytes, half of the time only ASCII ones.
fn noise(rng: &mut Rng) -> Vec<u8> {
    // Mostly short pieces: parsers often stop at the first mistake.
    let most = if rng.below(8) == 0 { 4096 } else { 64 };
    let len = below(rng, most);
    let ascii = rng.below(2) == 0;
    (0..len)
        .map(|_| match rng.next_u64() as u8 {
            b if ascii => b & 0x7f,
            b => b,
        })
        .collect()
}

/// Returns fewer than 60 pieces of the samples, most of them words, with random separators or
/// numbers between.
fn words(samples: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    const BETWEEN: &[u8] = b" \n\t,=:;.()[]{}\"'<>-$&|#\\";
    let mut out = Vec::new();
    for _ in 0..below(rng, 60) {
        let sample = &samples[below(rng, samples.len())];
        let at = below(rng, sample.len());
        let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        let len = sample[at..].iter().take(24).take_while(|&b| is_word(b));
        let len = len.count().max(1);
        out.extend_from_slice(&sample[at..at + len]);
        match rng.below(4) {
            0 => out.push(BETWEEN[below(rng, BETWEEN.len())]),
            1 => out.extend_from_slice(NUMBERS[below(rng, NUMBERS.len())].as_bytes()),
            _ => {}
        }
    }
    out
}

/// Returns a copy of one of the samples with one to eight random changes: bytes replaced, removed
/// or copied, a piece of another sample put in, the end cut off, or a number replaced.
///
/// # Panics
/// If there is no sample.
pub fn damaged(samples: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = samples[below(rng, samples.len())].clone();
    for _ in 0..=rng.below(8) {
        if bytes.is_empty() {
            break;
        }
        let at = below(rng, bytes.len());
        let end = (at + below(rng, 40)).min(bytes.len());
        match rng.below(9) {
            0 => bytes[at] = rng.next_u64() as u8,
            1 => bytes[at] = b" ,.\n()<>\"=0123456789-x[]{}:'$&"[below(rng, 30)],
            2 => drop(bytes.drain(at..end)),
            3 => {
                let piece = bytes[at..end].to_vec();
                let to = below(rng, bytes.len());
                bytes.splice(to..to, piece);
            }
            4 => {
                let other = &samples[below(rng, samples.len())];
                let from = below(rng, other.len());
                let to = (from + below(rng, 200)).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
            5 if rng.below(4) == 0 => bytes.truncate(at),
            _ => number(&mut bytes, at, rng),
        }
    }
    bytes
}

/// Replaces the first decimal number from the index `at` on by one that parsers may trip over: a
/// limit of an integer type, or an invalid number. Nothing happens if there is none.
fn number(bytes: &mut Vec<u8>, at: usize, rng: &mut Rng) {
    let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit) else {
        return;
    };
    let from = at + from;
    let len = bytes[from..].iter().take_while(|b| b.is_ascii_digit());
    let len = len.count();
    let new = NUMBERS[below(rng, NUMBERS.len())].bytes();
    bytes.splice(from..from + len, new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let samples = [b"a = 1\n".to_vec(), b"bs=4k count=9".to_vec()];
        let of = |seed| {
            let mut all = Vec::new();
            feed(seed, &samples, 10_000, |piece| all.extend_from_slice(piece));
            all
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        assert!(of(1).len() >= 9000);
    }
}
