//! Makes a changed migration recompile the code that embeds the migrations.

fn main() {
    println!("cargo:rerun-if-changed=../migrations");
}
