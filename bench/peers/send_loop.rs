//! What the kernel asks of a server that sends each message alone: one `write` of a frame to each client of a record.
//!
//! `send_loop CLIENTS KEYS` prints its port. The first CLIENTS connections to it are WebSockets, and want the KEYS by
//! turns. Those behind them are publishers, one after the other, and send lines of a key and a record.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

const ACCEPTED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";
const TEXT: u8 = 0x81;
const SIZE_OF_TWO_BYTES: u8 = 126;

fn main() -> io::Result<()> {
    let numbers: Vec<_> = std::env::args().skip(1).map(|text| number(&text)).collect();
    let [clients, keys] = numbers[..] else {
        panic!("expected CLIENTS KEYS")
    };
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    println!("{}", listener.local_addr()?.port());
    let mut wanting: Vec<_> = (0..keys).map(|_| Vec::new()).collect();
    for client in 0..clients {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        stream.write_all(ACCEPTED)?;
        wanting[client % keys].push(stream);
    }
    let (taken, records) = mpsc::channel();
    thread::spawn(move || {
        // A thread of its own takes the records, so that no publisher waits for the clients.
        for publisher in listener.incoming() {
            for line in BufReader::new(publisher.expect("a publisher")).lines() {
                taken.send(line.expect("a line")).expect("the loop");
            }
        }
    });
    for line in records {
        let (key, record) = line.split_once(' ').expect("a key and a record");
        let frame = frame(record.as_bytes());
        for stream in &mut wanting[number(key)] {
            stream.write_all(&frame)?;
        }
    }
    Ok(())
}

fn number(text: &str) -> usize {
    text.parse().expect("a number")
}

fn frame(record: &[u8]) -> Vec<u8> {
    let size = u16::try_from(record.len()).expect("a record of less than 64 KiB");
    [&[TEXT, SIZE_OF_TWO_BYTES], &size.to_be_bytes()[..], record].concat()
}
