//! Models of Sowline's protocols. Stateright visits every state that a model reaches within its bounds, and checks the
//! guarantees in each. See `README.md` for what is modeled and what is not.

pub mod checking;
pub mod log;
pub mod materializer;
pub mod position;
pub mod serving;
pub mod trace;
