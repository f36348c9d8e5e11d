//! The functions of librdkafka, and the structs that they fill, as `rdkafka.h` documents them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::sync::OnceLock;

#[cfg(unix)]
use libloading::os::unix as os;
#[cfg(windows)]
use libloading::os::windows as os;

/// The major version whose functions and structs are known.
const MAJOR: c_int = 2;

/// Where the number of the major version begins in a version.
const MAJOR_SHIFT: u32 = 24;

/// A struct whose content only librdkafka knows.
macro_rules! opaque {
    ($($name:ident: $about:literal;)*) => {
        $(
            #[doc = $about]
            #[repr(C)]
            pub struct $name {
                private: [u8; 0],
            }
        )*
    };
}

opaque! {
    RawClient: "`rd_kafka_t`: a client.";
    RawConf: "`rd_kafka_conf_t`: the settings of a client.";
    RawQueue: "`rd_kafka_queue_t`: a queue of messages.";
    RawHeaders: "`rd_kafka_headers_t`: the headers of a message.";
    RawList: "`rd_kafka_topic_partition_list_t`: a list of partitions. Its fields are not used.";
    RawTopic: "`rd_kafka_topic_t`: a topic.";
}

/// `rd_kafka_message_t`.
#[repr(C)]
pub struct RawMessage {
    pub err: c_int,
    pub topic: *mut RawTopic,
    pub partition: i32,
    pub payload: *mut c_void,
    pub len: usize,
    pub key: *mut c_void,
    pub key_len: usize,
    pub offset: i64,
    pub private: *mut c_void,
}

/// `rd_kafka_type_t`.
pub const CONSUMER: c_int = 1;
/// `RD_KAFKA_CONF_OK`.
pub const CONF_OK: c_int = 0;
/// `RD_KAFKA_RESP_ERR_NO_ERROR`.
pub const NO_ERROR: c_int = 0;
/// `RD_KAFKA_RESP_ERR__INVALID_ARG`.
pub const INVALID_ARG: c_int = -186;

/// Receives the log lines of a client: level, facility and text.
pub type LogCallback = unsafe extern "C" fn(*const RawClient, c_int, *const c_char, *const c_char);

/// Why librdkafka can't be called.
#[derive(Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// There is no such library, or the system does not load it.
    Library(String),
    /// The library lacks a function.
    Function(&'static str),
    /// The library is of another major version.
    Version(i32),
}

impl Display for Unavailable {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::Library(why) => write!(out, "the client's library does not load: {why}"),
            Unavailable::Function(name) => write!(out, "the client's library shows no {name}"),
            Unavailable::Version(version) => {
                write!(
                    out,
                    "expected librdkafka {MAJOR}, got {}",
                    version >> MAJOR_SHIFT
                )
            }
        }
    }
}

macro_rules! functions {
    ($($name:ident($($given:ty),*) $(-> $returned:ty)?;)*) => {
        /// The functions that are called here.
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($given),*) $(-> $returned)?,)*
            /// Keeps the functions loaded.
            _library: os::Library,
        }

        impl Functions {
            /// Find the functions in a library, or in the libraries that it needs.
            ///
            /// # Safety
            /// The functions of these names have to be those of librdkafka.
            unsafe fn of(library: os::Library) -> Result<Self, Unavailable> {
                $(
                    // SAFETY: `rdkafka.h` declares the function with this type, and the caller promises that it is
                    // that function.
                    let found = unsafe { library.get(concat!(stringify!($name), "\0")) };
                    let $name = *found.map_err(|_| Unavailable::Function(stringify!($name)))?;
                )*
                Ok(Functions { $($name,)* _library: library })
            }
        }
    };
}

functions! {
    rd_kafka_version() -> c_int;
    rd_kafka_conf_new() -> *mut RawConf;
    rd_kafka_conf_destroy(*mut RawConf);
    rd_kafka_conf_set(*mut RawConf, *const c_char, *const c_char, *mut c_char, usize) -> c_int;
    rd_kafka_conf_set_log_cb(*mut RawConf, Option<LogCallback>);
    rd_kafka_conf_set_opaque(*mut RawConf, *mut c_void);
    rd_kafka_opaque(*const RawClient) -> *mut c_void;
    rd_kafka_name(*const RawClient) -> *const c_char;
    rd_kafka_new(c_int, *mut RawConf, *mut c_char, usize) -> *mut RawClient;
    rd_kafka_last_error() -> c_int;
    rd_kafka_err2str(c_int) -> *const c_char;
    rd_kafka_poll_set_consumer(*mut RawClient) -> c_int;
    rd_kafka_queue_get_consumer(*mut RawClient) -> *mut RawQueue;
    rd_kafka_queue_destroy(*mut RawQueue);
    rd_kafka_topic_partition_list_new(c_int) -> *mut RawList;
    rd_kafka_topic_partition_list_add(*mut RawList, *const c_char, i32) -> *mut c_void;
    rd_kafka_topic_partition_list_set_offset(*mut RawList, *const c_char, i32, i64) -> c_int;
    rd_kafka_topic_partition_list_destroy(*mut RawList);
    rd_kafka_assign(*mut RawClient, *const RawList) -> c_int;
    rd_kafka_consume_batch_queue(*mut RawQueue, c_int, *mut *mut RawMessage, usize) -> isize;
    rd_kafka_message_headers(*const RawMessage, *mut *mut RawHeaders) -> c_int;
    rd_kafka_header_get_all(*const RawHeaders, usize, *mut *const c_char, *mut *const c_void, *mut usize) -> c_int;
    rd_kafka_message_errstr(*const RawMessage) -> *const c_char;
    rd_kafka_message_destroy(*mut RawMessage);
    rd_kafka_consumer_close(*mut RawClient) -> c_int;
    rd_kafka_destroy(*mut RawClient);
}

impl Functions {
    /// Return the text for the code of an error.
    pub fn text_of(&self, code: c_int) -> String {
        // SAFETY: the function takes any code, and returns a text that is never freed.
        let text = unsafe { (self.rd_kafka_err2str)(code) };
        // SAFETY: see above.
        unsafe { text_at(text) }
    }
}

/// Return a copy of a C text; empty if there is none.
///
/// # Safety
/// `text` is null, or a C text that lives during the call.
pub unsafe fn text_at(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller promises that it is a C text.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// The librdkafka of this process. A process has one: its log lines are looked up in it.
static LOADED: OnceLock<Functions> = OnceLock::new();

/// Return the functions, if they were found.
pub fn loaded() -> Option<&'static Functions> {
    LOADED.get()
}

/// The librdkafka of this process.
#[derive(Clone, Copy)]
pub struct Library(pub(crate) &'static Functions);

impl Library {
    /// Open the librdkafka that a library of this process has or needs, such as the extension module of a client.
    ///
    /// A library that is loaded already is not loaded again, so both use the same librdkafka. Once there is one, it is
    /// the same for each path.
    pub fn open(path: &Path) -> Result<Self, Unavailable> {
        if let Some(functions) = loaded() {
            return Ok(Library(functions));
        }
        // SAFETY: loading runs the initializers of the library. The path is that of an extension module that Python
        // has imported, so they have run already.
        let library = unsafe { os::Library::new(path) };
        let library = library.map_err(|why| Unavailable::Library(why.to_string()))?;
        // SAFETY: no other library defines names that begin with `rd_kafka_`.
        let functions = unsafe { Functions::of(library) }?;
        // SAFETY: the function needs nothing.
        let version = unsafe { (functions.rd_kafka_version)() };
        if version >> MAJOR_SHIFT != MAJOR {
            return Err(Unavailable::Version(version));
        }
        Ok(Library(LOADED.get_or_init(|| functions)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_not_opened() {
        let opened = Library::open(Path::new("/nonexistent/client.so")).map(|_| ());
        assert!(matches!(opened, Err(Unavailable::Library(_))), "{opened:?}");
    }

    #[cfg(unix)]
    #[test]
    fn a_program_without_librdkafka_shows_no_function() {
        // SAFETY: the names are not defined in the tests' program, so no function is called.
        let found = unsafe { Functions::of(os::Library::this()) }.map(|_| ());
        assert_eq!(found, Err(Unavailable::Function("rd_kafka_version")));
    }

    #[test]
    fn reasons_name_what_was_expected() {
        let version = Unavailable::Version(0x0301_00ff);
        assert_eq!(version.to_string(), "expected librdkafka 2, got 3");
    }
}
