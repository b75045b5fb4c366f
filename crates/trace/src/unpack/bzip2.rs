//! bzip2: streams one after the other, of blocks up to 900,000 bytes.
//!
//! A block's bytes were run-length encoded, sorted (Burrows-Wheeler), moved to front, run-length
//! encoded again, and coded by two to six Huffman tables in turn, fifty symbols each. The format is
//! described by J. Tsai, BZIP2: Format Specification (2016). Checksums are verified. Blocks with
//! the `randomised` bit, which bzip2 has not written since version 0.9.5, are refused.

use super::AT_ONCE;
use std::io::{self, BufRead, BufReader, Read};

/// The longest code, in bits.
const LONGEST: usize = 20;

/// The most symbols: 256 bytes less the first, two digits of runs, and the end.
const SYMBOLS: usize = 258;

/// Symbols coded by one table before the next selector counts.
const GROUP: usize = 50;

/// The most selectors that a block of 900,000 symbols needs; more are passed by.
const SELECTORS: usize = 18_002;

/// The streams of a file, one after the other.
pub(crate) struct Streams {
    bits: Bits,
    /// The most bytes of a block; 0 between two streams.
    most: usize,
    /// Whether a stream was read: only then the file may end.
    some: bool,
    /// The checksum of the stream's blocks so far.
    all: u32,
    /// The block's sorted bytes, each with the index of its successor above it.
    sorted: Vec<u32>,
    /// The index of the next byte, and the number of bytes that are left.
    next: usize,
    left: usize,
    /// The last byte, how often it came in a row (up to four), and how often it is to be repeated.
    last: u8,
    row: u8,
    repeat: u8,
    /// The block's checksum as it should be, and as it is so far; `None` between two blocks.
    check: Option<(u32, u32)>,
}

impl Streams {
    /// Makes a stream of the bytes of all bzip2 streams of a file.
    pub fn new(packed: Box<dyn Read + Send>) -> Self {
        Self {
            bits: Bits {
                packed: BufReader::with_capacity(AT_ONCE, packed),
                buffer: 0,
                have: 0,
            },
            most: 0,
            some: false,
            all: 0,
            sorted: Vec::new(),
            next: 0,
            left: 0,
            last: 0,
            row: 0,
            repeat: 0,
            check: None,
        }
    }

    /// Reads the next block, and the ends and beginnings of streams before it. Returns false at the
    /// end of the file.
    ///
    /// # Errors
    /// The file can't be read, is cut or damaged.
    fn block(&mut self) -> io::Result<bool> {
        loop {
            if self.most == 0 {
                if self.some && self.bits.packed.fill_buf()?.is_empty() {
                    return Ok(false);
                }
                let (magic, level) = (self.bits.take(24)?, self.bits.take(8)?);
                if magic != 0x42_5a68 || !(0x31..=0x39).contains(&level) {
                    return Err(damaged("something other than a bzip2 stream follows"));
                }
                self.most = (level as usize - 0x30) * 100_000;
                self.some = true;
                self.all = 0;
            }
            let (high, low) = (self.bits.take(24)?, self.bits.take(24)?);
            let check = self.bits.take(32)?;
            match (high, low) {
                (0x31_4159, 0x26_5359) => {
                    self.all = self.all.rotate_left(1) ^ check;
                    self.check = Some((check, u32::MAX));
                    self.sort()?;
                    return Ok(true);
                }
                (0x17_7245, 0x38_5090) if check == self.all => {
                    self.most = 0;
                    // Streams begin at whole bytes.
                    self.bits.have = 0;
                }
                (0x17_7245, 0x38_5090) => return Err(damaged("a wrong checksum")),
                _ => return Err(damaged("neither a block nor the end of a stream")),
            }
        }
    }

    /// Decodes a block after its checksum into `sorted`, and puts its bytes in order.
    ///
    /// # Errors
    /// The file can't be read, is cut or damaged.
    fn sort(&mut self) -> io::Result<()> {
        if self.bits.take(1)? == 1 {
            return Err(damaged("a randomised block of bzip2 before 0.9.5"));
        }
        let origin = self.bits.take(24)? as usize;
        let mut front = self.used()?;
        let symbols = front.len() + 2;
        let (tables, selectors) = self.tables(symbols)?;
        self.sorted.clear();
        let mut counts = [0_u32; 256];
        // The length of a run and the weight of its next digit, 1 or 2, from the lowest on.
        let (mut run, mut weight) = (0_usize, 1_usize);
        'groups: for selector in selectors {
            for _ in 0..GROUP {
                let symbol = tables[usize::from(selector)].decode(&mut self.bits)?;
                if symbol < 2 {
                    run += weight << symbol;
                    weight <<= 1;
                    if run > self.most {
                        return Err(damaged("a block that is too long"));
                    }
                    continue;
                }
                if run > 0 {
                    let byte = front[0];
                    if self.sorted.len() + run > self.most {
                        return Err(damaged("a block that is too long"));
                    }
                    self.sorted.resize(self.sorted.len() + run, u32::from(byte));
                    counts[usize::from(byte)] += run as u32;
                    (run, weight) = (0, 1);
                }
                if symbol == symbols - 1 {
                    break 'groups;
                }
                front[..symbol].rotate_right(1);
                let byte = front[0];
                if self.sorted.len() == self.most {
                    return Err(damaged("a block that is too long"));
                }
                self.sorted.push(u32::from(byte));
                counts[usize::from(byte)] += 1;
            }
        }
        if origin >= self.sorted.len() {
            return Err(damaged("a block without its first byte"));
        }
        let mut from = 0;
        for count in &mut counts {
            from += std::mem::replace(count, from);
        }
        for i in 0..self.sorted.len() {
            let place = &mut counts[usize::from(self.sorted[i] as u8)];
            self.sorted[*place as usize] |= (i as u32) << 8;
            *place += 1;
        }
        self.next = (self.sorted[origin] >> 8) as usize;
        self.left = self.sorted.len();
        (self.row, self.repeat) = (0, 0);
        Ok(())
    }

    /// Reads the bytes that occur in a block, in their order.
    ///
    /// # Errors
    /// The file can't be read, or there are none.
    fn used(&mut self) -> io::Result<Vec<u8>> {
        let mut used = Vec::with_capacity(256);
        let sixteens = self.bits.take(16)?;
        for high in (0..16).filter(|i| sixteens >> (15 - i) & 1 == 1) {
            let ones = self.bits.take(16)?;
            let low = (0..16).filter(|i| ones >> (15 - i) & 1 == 1);
            used.extend(low.map(|low| (high << 4 | low) as u8));
        }
        match used.is_empty() {
            true => Err(damaged("a block without bytes")),
            false => Ok(used),
        }
    }

    /// Reads the Huffman tables of a block of so many symbols, and for each group of symbols the
    /// number of its table.
    ///
    /// # Errors
    /// The file can't be read or is damaged.
    fn tables(&mut self, symbols: usize) -> io::Result<(Vec<Table>, Vec<u8>)> {
        let number = self.bits.take(3)? as usize;
        if !(2..=6).contains(&number) {
            return Err(damaged("a wrong number of tables"));
        }
        let mut front: Vec<u8> = (0..number as u8).collect();
        let mut selectors = Vec::new();
        for _ in 0..self.bits.take(15)? {
            let mut at = 0;
            while self.bits.take(1)? == 1 {
                at += 1;
                if at == number {
                    return Err(damaged("a wrong selector"));
                }
            }
            front[..=at].rotate_right(1);
            if selectors.len() < SELECTORS {
                selectors.push(front[0]);
            }
        }
        let mut tables = Vec::with_capacity(number);
        for _ in 0..number {
            let mut lengths = [0_u8; SYMBOLS];
            let mut length = self.bits.take(5)?;
            for of in &mut lengths[..symbols] {
                loop {
                    if !(1..=LONGEST as u32).contains(&length) {
                        return Err(damaged("a wrong length of a code"));
                    }
                    if self.bits.take(1)? == 0 {
                        break;
                    }
                    match self.bits.take(1)? {
                        0 => length += 1,
                        _ => length -= 1,
                    }
                }
                *of = length as u8;
            }
            tables.push(Table::of(&lengths[..symbols]));
        }
        Ok((tables, selectors))
    }

    /// Returns the next byte of the block, before the first run-length encoding is undone.
    fn sorted_byte(&mut self) -> u8 {
        let entry = self.sorted[self.next];
        self.next = (entry >> 8) as usize;
        self.left -= 1;
        entry as u8
    }
}

impl Read for Streams {
    /// Reads unpacked bytes into `to` and returns their number, 0 at the end.
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut n = 0;
        while n < to.len() {
            if self.repeat > 0 {
                self.repeat -= 1;
            } else if self.left > 0 {
                let byte = self.sorted_byte();
                if self.row == 4 {
                    self.row = 0;
                    self.repeat = byte;
                    continue;
                }
                self.row = match self.row > 0 && byte == self.last {
                    true => self.row + 1,
                    false => 1,
                };
                self.last = byte;
            } else {
                if let Some((expected, crc)) = self.check.take()
                    && expected != !crc
                {
                    return Err(damaged("a wrong checksum"));
                }
                // Bytes of the last block are returned before an error in the next.
                if n > 0 || !self.block()? {
                    break;
                }
                continue;
            }
            to[n] = self.last;
            n += 1;
            if let Some((_, crc)) = &mut self.check {
                *crc = *crc << 8 ^ TABLE[(*crc >> 24) as usize ^ usize::from(self.last)];
            }
        }
        Ok(n)
    }
}

/// Makes the error about damaged data.
fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The CRC-32 of bzip2, highest bit first: the remainder of each byte.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut c, mut bit) = ((i as u32) << 24, 0);
        while bit < 8 {
            c = c << 1 ^ if c >> 31 == 1 { 0x04c1_1db7 } else { 0 };
            bit += 1;
        }
        table[i] = c;
        i += 1;
    }
    table
};

/// A canonical Huffman code.
struct Table {
    /// For each length of a code: the first code, the number of codes, and the index of its symbol.
    lengths: [(u32, u32, u32); LONGEST + 1],
    /// The symbols in the order of their codes.
    symbols: Vec<u16>,
}

impl Table {
    /// Makes the code whose symbols have these lengths, from 1 to [`LONGEST`] bits.
    fn of(of: &[u8]) -> Self {
        let mut symbols = Vec::with_capacity(of.len());
        let mut lengths = [(0, 0, 0); LONGEST + 1];
        let mut first = 0_u32;
        for (length, codes) in lengths.iter_mut().enumerate().skip(1) {
            let before = symbols.len() as u32;
            let these = (0_u16..)
                .zip(of)
                .filter(|(_, l)| usize::from(**l) == length);
            symbols.extend(these.map(|(symbol, _)| symbol));
            let number = symbols.len() as u32 - before;
            *codes = (first, number, before);
            first = (first + number) << 1;
        }
        Self { lengths, symbols }
    }

    /// Reads the next symbol.
    ///
    /// # Errors
    /// The file can't be read or the bits are no code.
    fn decode(&self, bits: &mut Bits) -> io::Result<usize> {
        let mut code = 0;
        for (first, number, at) in &self.lengths[1..] {
            code = code << 1 | bits.take(1)?;
            if let Some(nth) = code.checked_sub(*first)
                && nth < *number
            {
                return Ok(usize::from(self.symbols[(at + nth) as usize]));
            }
        }
        Err(damaged("bits that are no code"))
    }
}

/// The bits of a stream, the highest of a byte first.
struct Bits {
    packed: BufReader<Box<dyn Read + Send>>,
    /// Bits that were read but not taken are the lowest `have` ones.
    buffer: u64,
    have: u32,
}

impl Bits {
    /// Takes the next `n` bits, at most 32.
    ///
    /// # Errors
    /// The stream can't be read or has fewer.
    #[inline]
    fn take(&mut self, n: u32) -> io::Result<u32> {
        while self.have < n {
            let Some(byte) = self.packed.fill_buf()?.first().copied() else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            self.packed.consume(1);
            self.buffer = self.buffer << 8 | u64::from(byte);
            self.have += 8;
        }
        self.have -= n;
        Ok((self.buffer >> self.have & ((1 << n) - 1)) as u32)
    }
}
