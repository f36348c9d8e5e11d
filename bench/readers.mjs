// Subscribers of recorded frames, in Node and in browsers: of the raw messages, and with the TypeScript client.

const TOPIC = "orders";
const OPTIONS = "oof,reset"; // those of a view

// Each begins to read, and returns what it has got when that is asked for: a number, and the last bookmark.
const readers = {
  raw({ url, WebSocket }) {
    const socket = new WebSocket(`${url.replace("http", "ws")}/v1`);
    let messages = 0;
    let last;
    socket.onopen = () => {
      socket.send(JSON.stringify({ command: "logon", command_id: "logon" }));
      socket.send(JSON.stringify({ command: "sow_and_subscribe", command_id: "1", topic: TOPIC, options: OPTIONS }));
    };
    socket.onmessage = ({ data }) => {
      const parsed = JSON.parse(data);
      if (Array.isArray(parsed)) {
        messages += parsed.length;
        last = parsed[parsed.length - 1];
      } else {
        messages++;
        last = parsed;
      }
    };
    return { close: () => socket.close(), got: () => [messages, last.bookmark] };
  },

  callback({ url, WebSocket, connect, isDelta, integers }) {
    const client = connect(url, { WebSocket, integers });
    let messages = 0;
    const command = isDelta ? "sowAndDeltaSubscribe" : "sowAndSubscribe";
    const subscription = client[command](TOPIC, { options: OPTIONS }, () => messages++);
    return { close: () => client.close(), got: () => [messages, subscription.bookmark] };
  },

  view({ url, WebSocket, connect, isDelta, integers }) {
    const client = connect(url, { WebSocket, integers });
    const view = client.view(TOPIC, { delta: isDelta });
    return { close: () => client.close(), got: () => [view.size, view.bookmark] };
  },

  listener({ url, WebSocket, connect, isDelta, integers }) {
    const client = connect(url, { WebSocket, integers });
    const view = client.view(TOPIC, { delta: isDelta });
    let changed = 0;
    let last;
    view.onChange(({ changes, bookmark }) => {
      changed += changes.length;
      last = bookmark;
    });
    return { close: () => client.close(), got: () => [changed, last] };
  },
};

/** Let a reader take all frames; return the seconds from the first to the end of the last, and what it has got. */
export async function take({ reader, frames, ...given }) {
  let ended;
  const seconds = new Promise((resolve) => (ended = resolve));

  // The same for all readers: their own code handles a frame before it is counted.
  class Watched extends given.WebSocket {
    set onmessage(handle) {
      let left = frames;
      let began;
      super.onmessage =
        handle &&
        ((event) => {
          began ??= performance.now();
          handle(event);
          if (--left === 0) setTimeout(() => ended((performance.now() - began) / 1000));
        });
    }
  }

  const reading = readers[reader]({ ...given, WebSocket: Watched });
  const result = { seconds: await seconds, got: reading.got() };
  reading.close();
  return result;
}
