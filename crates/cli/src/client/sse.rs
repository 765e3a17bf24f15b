//! Reads server-sent events from the chunks of a response, wherever these are cut.

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerEvent {
    /// Its name; `message` if it has none.
    pub(crate) name: String,
    pub(crate) data: String,
    pub(crate) id: Option<String>,
}

/// Collects bytes until an event is whole.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    after_carriage_return: bool,
    name: Option<String>,
    data: Option<String>,
    id: Option<String>,
}

impl Parser {
    /// Takes the next bytes, gives the events that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<ServerEvent> {
        let mut events = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' if self.after_carriage_return => {}
                b'\n' | b'\r' => {
                    let line = std::mem::take(&mut self.line);
                    events.extend(self.end_of_line(&String::from_utf8_lossy(&line)));
                }
                other => self.line.push(*other),
            }
            self.after_carriage_return = *byte == b'\r';
        }
        events
    }

    fn end_of_line(&mut self, line: &str) -> Option<ServerEvent> {
        if line.is_empty() {
            let (name, data, id) = (self.name.take(), self.data.take(), self.id.clone());
            return data.map(|data| ServerEvent {
                name: name.unwrap_or_else(|| "message".to_owned()),
                data,
                id,
            });
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = Some(value.to_owned()),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            "id" => self.id = Some(value.to_owned()),
            // Comments (an empty field) and what a later version may add.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_whole_wherever_they_are_cut() {
        let text = ": keep-alive\n\nid: 7\nevent: row\ndata: {\"a\":\"ä\"}\n\ndata:x\r\ndata: y\r\n\r\nevent: none\n\n";
        let expected = vec![
            ServerEvent {
                name: "row".into(),
                data: "{\"a\":\"ä\"}".into(),
                id: Some("7".into()),
            },
            ServerEvent {
                name: "message".into(),
                data: "x\ny".into(),
                id: Some("7".into()),
            },
        ];
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let found: Vec<_> = text
                .as_bytes()
                .chunks(size)
                .flat_map(|chunk| parser.push(chunk))
                .collect();
            assert_eq!(found, expected, "chunks of {size}");
        }
    }
}
