//! The command `account`, small: every step is there, and they add up. Nothing here depends on how fast anything is.

use std::process::{Command, Output, Stdio};

fn stoop(words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stoop"));
    command.args(words.split_whitespace()).stdin(Stdio::null()).output().expect("stoop can be started")
}

#[cfg(not(feature = "account"))]
#[test]
fn a_program_without_stamps_says_how_to_get_them() {
    let output = stoop("account");
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("--features account"), "{error}");
}

#[cfg(feature = "account")]
mod with_stamps {
    use super::stoop;
    use serde_json::Value;

    /// One round on the processors that are there.
    fn account(words: &str) -> Value {
        let processors = std::thread::available_parallelism().map_or(1, |number| number.get().min(2));
        let output =
            stoop(&format!("account --rounds 1 --json --waiting block --processors {processors} {words}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("it is a JSON object")
    }

    #[test]
    fn steps_follow_each_other_from_the_callers_stub_to_the_server_and_back() {
        for transport in ["udp", "tcp", "unix", "shm"] {
            let account = account(&format!("--transport {transport} --procedure max-result --no-kernel"));
            let steps = account["steps"].as_array().expect("steps are a list");
            let mut places: Vec<&str> =
                steps.iter().map(|step| step["place"].as_str().expect("a place")).collect();
            places.dedup();
            assert_eq!(places, ["caller", "between", "server", "between", "caller"], "over {transport}");
            // Whether the sum is about the whole depends on the machine; whether one step ends where the next begins does not.
            let doubt = account["doubt"].as_str().unwrap_or_default();
            assert!(!doubt.contains("the step before it"), "over {transport}: {doubt}");
            assert!(account["plain"]["calls"].as_u64() >= Some(100), "{account}");
        }
    }

    #[test]
    fn a_kernel_that_is_one_step_is_said_to_be_one_and_why() {
        let account = account("--transport unix --no-kernel");
        assert!(account["kernel"].as_str().is_some_and(|why| why.contains("--no-kernel")), "{account}");
    }

    #[test]
    fn the_pictures_are_written_where_asked() {
        let name = |kind: &str| std::env::temp_dir().join(format!("stoop-{kind}-{}.svg", std::process::id()));
        let files = ["wide", "narrow"].map(name);
        let [wide, narrow] = files.each_ref().map(|file| file.display());
        account(&format!("--transport shm --svg {wide} --svg-narrow {narrow}"));
        for file in files {
            let picture = std::fs::read_to_string(&file).expect("the picture is there");
            let _ = std::fs::remove_file(&file);
            assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
            assert!(picture.contains("Starter"), "{picture}");
        }
    }
}
