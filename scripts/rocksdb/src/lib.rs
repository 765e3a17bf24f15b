//! Empty: this package exists for the native archive that its dependency builds.
