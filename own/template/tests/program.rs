//! Tests that the program works like `fathom` and knows the controller.

use std::process::{Command, Output};

fn program(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_template-controller")).args(args).output().expect("it runs")
}

#[test]
fn own_controller_can_be_listed_and_compared() {
    let listed = program(&["controllers", "template-controller"]);
    let text = String::from_utf8_lossy(&listed.stdout);
    assert!(listed.status.success() && text.starts_with("template-controller: "), "{text}");
    let controllers = "reno,template-controller:target=5ms";
    let args = [
        "compare",
        "--controllers",
        controllers,
        "--responses",
        "200",
        "--seeds",
        "1",
        "--json",
        "-",
    ];
    let compared = program(&args);
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stderr));
    assert!(
        String::from_utf8_lossy(&compared.stdout).contains("\"template-controller:target=5ms\"")
    );
}
