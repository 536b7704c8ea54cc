//! Malformed images: sound ones with something wrong, the same for the same number.

use super::builder::{Builder, Dice, gzip};

/// Variant `number` of the corpus.
pub(crate) fn variant(number: u64) -> Vec<u8> {
    let mut dice = Dice(number);
    let mut builder = Builder { two: dice.below(2) == 1, big: dice.below(2) == 1, ..Builder::new([5, 4, 3, 4]) };
    if dice.below(3) == 0 {
        builder.extension = [[32, 0, 0, 0, 6, 0, 0, 0], [7; 8], [7; 8], [0; 8]].concat();
        if builder.big {
            builder.extension[..8].copy_from_slice(&[0, 0, 0, 32, 0, 0, 0, 6]);
        }
    }
    for _ in 0..=dice.below(2) {
        wrong_field(&mut builder, &mut dice);
    }
    let mut bytes = builder.bytes();
    match dice.below(6) {
        0 => wrong_bytes(&mut bytes, 0, 352, &mut dice),
        1 => wrong_bytes(&mut bytes, 0, usize::MAX, &mut dice),
        2 => bytes.truncate(dice.below(bytes.len())),
        3 => bytes.extend((0..dice.below(5000)).map(|i| i as u8)),
        _ => {}
    }
    if dice.below(3) != 0 {
        return bytes;
    }
    let mut packed = gzip(&bytes);
    match dice.below(5) {
        0 => wrong_bytes(&mut packed, 0, 20, &mut dice),
        1 => wrong_bytes(&mut packed, 0, usize::MAX, &mut dice),
        2 => packed.truncate(dice.below(packed.len())),
        3 => packed.extend(gzip(&bytes[..dice.below(bytes.len())])),
        _ => {}
    }
    packed
}

fn wrong_field(builder: &mut Builder, dice: &mut Dice) {
    let numbers = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-300, 1e30, 0.5, 351.0, 352.5, 400.0, 1e9, 4e18];
    let sizes = [0, -1, 1, 2, 255, 256, 32767, 65535, 1 << 31, i64::MAX, i64::MIN, 1 << 40];
    let shorts = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 768, 1024, 1280, 1536, 1792, 2048, 2304, -1, i16::MAX];
    match dice.below(9) {
        0 => {
            // An earlier change may have left no dimension at all.
            let (at, size) = (dice.below(builder.dims.len()), dice.pick(&sizes));
            builder.dims.iter_mut().skip(at).take(1).for_each(|d| *d = size);
        }
        1 => builder.dims.resize(dice.below(10), 1),
        2 => builder.datatype = dice.pick(&shorts),
        3 => {
            builder.datatype = dice.pick(&shorts);
            builder.bitpix = dice.pick(&[8, 16, 32, 64, 128]);
        }
        4 => builder.bitpix = dice.pick(&shorts[1..18]),
        5 => builder.vox_offset = dice.pick(&numbers),
        6 => builder.slope = dice.pick(&numbers),
        7 => builder.intercept = dice.pick(&numbers),
        _ => {
            let (row, column) = (dice.below(3), dice.below(4));
            builder.sform[row][column] = dice.pick(&numbers);
            builder.sform_code = dice.pick(&[0, 1, 4, 77, -1]);
        }
    }
}

fn wrong_bytes(bytes: &mut [u8], from: usize, to: usize, dice: &mut Dice) {
    let to = to.min(bytes.len());
    for _ in 0..=dice.below(8) {
        if from < to {
            let at = from + dice.below(to - from);
            bytes[at] = dice.next() as u8;
        }
    }
}
