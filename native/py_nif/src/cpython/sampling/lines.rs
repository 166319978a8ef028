//! The line of an instruction, from a code object's table of locations (`co_linetable`, PEP 626; the
//! format of Python 3.11 and later).

/// The line of the instruction with this number. `None`: the table has none for it.
pub fn line_of(table: &[u8], first_line: u32, instruction: usize) -> Option<u32> {
    let mut bytes = table.iter().copied();
    let mut line = i64::from(first_line);
    let mut end = 0;
    loop {
        let head = bytes.next()?;
        end += usize::from(head & 7) + 1;
        let has_line = match (head >> 3) & 15 {
            // No location.
            15 => false,
            // Lines and columns as numbers of any size.
            14 => {
                line += signed(&mut bytes)?;
                for _ in 0..3 {
                    number(&mut bytes)?;
                }
                true
            }
            // Without columns.
            13 => {
                line += signed(&mut bytes)?;
                true
            }
            // The next lines, and two columns.
            near @ 10..=12 => {
                line += i64::from(near) - 10;
                bytes.nth(1)?;
                true
            }
            // The same line, and columns in one byte.
            _ => {
                bytes.next()?;
                true
            }
        };
        if instruction < end {
            return u32::try_from(line).ok().filter(|_| has_line);
        }
    }
}

/// Six bits in each byte, the lowest first; the seventh says that more follow.
fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut value = 0;
    for shift in (0..60).step_by(6) {
        let byte = bytes.next()?;
        value |= u64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            return Some(value);
        }
    }
    None
}

/// The lowest bit is the sign.
fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let value = number(bytes)?;
    let amount = i64::try_from(value >> 1).ok()?;
    Some(if value & 1 == 1 { -amount } else { amount })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_entry_has_its_line() {
        // 2 instructions in line 10; 1 in the next line; 1 without columns 3 lines before;
        // 1 without a location; 1 by numbers, 70 lines on.
        let table = [
            0x80 | 1,
            0,
            0x80 | (11 << 3),
            0,
            4,
            0x80 | (13 << 3),
            7,
            0x80 | (15 << 3),
            0x80 | (14 << 3),
            64 | 12,
            2,
            0,
            1,
            1,
        ];
        let lines: Vec<_> = (0..7).map(|at| line_of(&table, 10, at)).collect();
        assert_eq!(
            lines,
            [Some(10), Some(10), Some(11), Some(8), None, Some(78), None]
        );
    }

    #[test]
    fn a_broken_table_has_no_line() {
        for table in [
            &[][..],
            &[0x80 | (14 << 3)],
            &[0x80 | (13 << 3), 255, 255],
            &[0; 3],
            &[255; 200],
        ] {
            let _ = line_of(table, 1, 10_000);
        }
    }
}
