//! Compression of whole files, told by their name.

use std::io::Read;

use flate2::read::MultiGzDecoder;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, possibly several members one after the other.
    Gzip,
}

impl Compression {
    /// By the extension of a path: `.gz` (in any case) is gzip.
    pub fn of_path(path: &str) -> Compression {
        match path.rsplit_once('.') {
            Some((_, extension)) if extension.eq_ignore_ascii_case("gz") => Compression::Gzip,
            _ => Compression::None,
        }
    }

    /// The decompressed stream of `reader`. A truncated or damaged stream is an error of
    /// `read`, never a silent end.
    pub fn reader<'a, R: Read + Send + 'a>(self, reader: R) -> Box<dyn Read + Send + 'a> {
        match self {
            Compression::None => Box::new(reader),
            Compression::Gzip => Box::new(MultiGzDecoder::new(reader)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn told_by_extension() {
        for (path, expected) in [
            ("a/b.json.gz", Compression::Gzip),
            ("B.GZ", Compression::Gzip),
            ("a.gz/b.csv", Compression::None),
            ("gz", Compression::None),
            ("a.gzip", Compression::None),
        ] {
            assert_eq!(Compression::of_path(path), expected, "{path}");
        }
    }

    #[test]
    fn reads_all_members_and_notices_truncation() {
        let mut file = gzip(b"first\n");
        file.extend(gzip(b"second\n"));
        let mut text = String::new();
        let mut reader = Compression::Gzip.reader(file.as_slice());
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "first\nsecond\n");

        let mut truncated = Compression::Gzip.reader(&file[..file.len() - 5]);
        assert!(truncated.read_to_end(&mut Vec::new()).is_err());
    }
}
