//! The gRPC messages and services of `proto/millrace.proto`, as generated code. See the .proto
//! file for what each call means.

/// Messages, clients and servers of `millrace.v1`.
pub mod v1 {
    #![allow(clippy::all, unreachable_pub, missing_docs)]
    tonic::include_proto!("millrace.v1");
}

/// Largest message that either side accepts: batches are bounded far below it, manifests are not sent.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;
