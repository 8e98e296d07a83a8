//! A peer that writes its packets by hand.

use super::*;

/// A peer that writes its packets by hand.
pub(super) struct Raw {
    pub(super) stream: TcpStream,
    pub(super) binding: BindingId,
}

impl Raw {
    pub(super) fn connect(server: &RunningServer) -> Self {
        Self { stream: TcpStream::connect(address_of(server)).unwrap(), binding: BindingId::NONE }
    }

    pub(super) fn bound(server: &RunningServer) -> Self {
        let mut raw = Self::connect(server);
        raw.send_bind();
        let (header, payload) = raw.receive().expect("a bind reply");
        assert_eq!(header.kind, Kind::BindReply);
        assert_eq!(BindReply::decode(&payload).unwrap().status, BindStatus::Bound);
        raw.binding = header.binding;
        raw
    }

    pub(super) fn send_bind(&mut self) {
        let request = BindRequest::new(1, "Lab", vec![]);
        let payload = request.encode();
        let mut header = Header::bare(Kind::Bind, BindingId::NONE, LaneId(0), CallNumber(1));
        header.message_len = payload.len() as u32;
        self.send(&header, &payload);
    }

    /// Answers the bind that comes, as a server does; `None` if nothing comes.
    pub(super) fn grant(&mut self) -> Option<()> {
        self.grant_lanes(1024)
    }

    /// The same, with so many lanes.
    pub(super) fn grant_lanes(&mut self, lanes: u32) -> Option<()> {
        let (asked, payload) = self.receive()?;
        let request = BindRequest::decode(&payload).unwrap();
        let payload = BindReply { max_message: 1, lanes, ..BindReply::granting(&request) }.encode();
        let mut header = Header { kind: Kind::BindReply, binding: self.binding, ..asked };
        header.message_len = payload.len() as u32;
        self.send(&header, &payload);
        Some(())
    }

    pub(super) fn call(&self, procedure: u16, number: u32, len: u32) -> Header {
        let mut header = Header::bare(Kind::Call, self.binding, LaneId(0), CallNumber(number));
        (header.procedure, header.message_len, header.time) = (procedure, len, 30_000_000);
        header
    }

    pub(super) fn cancel(&mut self, call: Header) {
        let cancel = Header::bare(Kind::Cancel, call.binding, call.lane, call.number);
        self.send(&cancel, &[]);
    }

    pub(super) fn send(&mut self, header: &Header, payload: &[u8]) {
        let packet = [&header.to_bytes()[..], payload].concat();
        self.stream.write_all(&packet).unwrap();
    }

    /// The next packet; `None` when the server has closed the connection.
    pub(super) fn receive(&mut self) -> Option<(Header, Vec<u8>)> {
        let mut header = [0; HEADER_LEN];
        self.stream.read_exact(&mut header).ok()?;
        let header = Header::from_bytes(&header).unwrap();
        let mut payload = vec![0; header.payload_len(STREAM_FRAGMENT).unwrap()];
        self.stream.read_exact(&mut payload).ok()?;
        Some((header, payload))
    }

    pub(super) fn assert_closed(mut self) {
        let mut rest = Vec::new();
        // Reset or closed in order: either way it is over.
        let _ = self.stream.read_to_end(&mut rest);
    }
}

/// A server that binds as it should and then answers as `answer` says.
pub(super) fn false_server(answer: impl Fn(&mut TcpStream, Header) + Send + 'static) -> String {
    raw_server(move |_, mut raw| {
        raw.grant()?;
        while let Some((call, _)) = raw.receive() {
            answer(&mut raw.stream, call);
        }
        None
    })
}

/// A server that does with each connection what it is told, one after the other; the first is number 0. Connections that are given
/// back stay open.
pub(super) fn raw_server(serve: impl Fn(u32, Raw) -> Option<Raw> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("tcp://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut open = Vec::new();
        for (number, stream) in (0..).zip(listener.incoming()) {
            open.extend(serve(number, Raw { stream: stream.unwrap(), binding: BindingId(5) }));
        }
    });
    uri
}
