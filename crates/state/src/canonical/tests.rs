//! What is written is read back; what is not ours is refused without a panic.

use proptest::prelude::*;

use super::*;

type Entries = Vec<(String, Vec<u8>, Vec<u8>)>;

fn write(entries: &Entries, part_bytes: usize) -> Vec<Part> {
    let mut writer = PartWriter::with_part_bytes(part_bytes);
    let mut parts = Vec::new();
    for (table, key, value) in entries {
        parts.extend(writer.push(table, key, value).unwrap());
    }
    parts.extend(writer.finish().unwrap());
    parts
}

fn read(content: &[u8]) -> Result<Entries> {
    let mut entries = Vec::new();
    read_part("p", content, &mut |table, key, value| {
        entries.push((table.to_owned(), key.to_vec(), value.to_vec()));
        Ok(())
    })?;
    Ok(entries)
}

fn sample() -> Entries {
    vec![
        ("s/main".into(), vec![0, 1, 2], vec![]),
        ("s/main".into(), vec![], vec![7; 300]),
        ("s/timers".into(), vec![9], vec![1]),
    ]
}

/// A part written by version 1: it must be readable for ever.
#[test]
fn version_1_is_read() {
    // Header, one block of table "t" with key 0x0001 "k" and value "v", end with count 1.
    // The zstd frame holds the block raw: magic, descriptor (single segment, 1-byte size), the
    // size, and one last raw block (3-byte header: size << 3 | last).
    let raw = [1, b't', 3, 0, 1, b'k', 1, b'v'];
    let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0x20, raw.len() as u8];
    frame.extend_from_slice(&[(raw.len() as u8) << 3 | 1, 0, 0]);
    frame.extend_from_slice(&raw);
    let mut part = b"MRSTATE\x01\x01".to_vec();
    part.extend_from_slice(&[8, 0, 0, 0]);
    part.extend_from_slice(&[frame.len() as u8, 0, 0, 0]);
    part.extend_from_slice(&crc32fast::hash(&frame).to_le_bytes());
    part.extend_from_slice(&frame);
    part.push(0);
    let count = [1, 0, 0, 0, 0, 0, 0, 0];
    part.extend_from_slice(&count);
    part.extend_from_slice(&crc32fast::hash(&count).to_le_bytes());
    assert_eq!(
        read(&part).unwrap(),
        [("t".to_owned(), vec![0, 1, b'k'], b"v".to_vec())]
    );
}

#[test]
fn every_damage_is_noticed() {
    let part = &write(&sample(), usize::MAX)[0].content;
    assert_eq!(read(part).unwrap(), sample());
    for cut in 0..part.len() {
        assert!(read(&part[..cut]).is_err(), "cut at {cut}");
    }
    for position in 0..part.len() {
        let mut damaged = part.clone();
        damaged[position] ^= 0x10;
        assert!(read(&damaged).is_err(), "flipped at {position}");
    }
    let longer = [part.as_slice(), &[0]].concat();
    assert!(read(&longer).is_err());
}

#[test]
fn a_claimed_size_is_not_believed() {
    let mut part = b"MRSTATE\x01\x01".to_vec();
    let frame = zstd::bulk::compress(&[0; 10], 1).unwrap();
    part.extend_from_slice(&u32::MAX.to_le_bytes());
    part.extend_from_slice(&(frame.len() as u32).to_le_bytes());
    part.extend_from_slice(&crc32fast::hash(&frame).to_le_bytes());
    part.extend_from_slice(&frame);
    let error = read(&part).unwrap_err().to_string();
    assert!(error.contains("claims 4294967295 bytes"), "{error}");
}

#[test]
fn another_version_is_called_that() {
    let error = read(b"MRSTATE\x02").unwrap_err();
    assert!(
        matches!(error, StateError::UnsupportedFormat { .. }),
        "{error}"
    );
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        entries in prop::collection::vec(
            ("[ab]{1,2}", prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 0..200)),
            0..60,
        ),
        part_bytes in 1usize..2_000,
    ) {
        let parts = write(&entries, part_bytes);
        let mut back = Vec::new();
        for part in &parts {
            let read = read(&part.content).unwrap();
            prop_assert_eq!(read.len() as u64, part.entries);
            back.extend(read);
        }
        prop_assert_eq!(back, entries);
    }

    #[test]
    fn random_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        tag in 0u8..3,
        sealed in any::<bool>(),
    ) {
        let _ = read(&bytes);
        // Behind a valid header and block header the deeper layers are reached.
        let mut part = b"MRSTATE\x01".to_vec();
        if sealed {
            let frame = zstd::bulk::compress(&bytes, 1).unwrap();
            part.push(TAG_BLOCK);
            part.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            part.extend_from_slice(&(frame.len() as u32).to_le_bytes());
            part.extend_from_slice(&crc32fast::hash(&frame).to_le_bytes());
            part.extend_from_slice(&frame);
        } else {
            part.push(tag);
            part.extend_from_slice(&bytes);
        }
        let _ = read(&part);
    }
}
