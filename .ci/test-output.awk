# Shows the output of `cargo test -- --show-output` without that of tests that pass, and notes the tests that fail.
#
# A test program that is killed is named, with the tests that libtest has said to take over a minute.
#
# Input: what cargo and the tests print, in one stream. Output: the list of tests as it comes; of a target with failed tests their
# output, else the line "test result:". Variables, of which the first two name files that grow:
#   outputs   the output of failed tests
#   failed    a line for each failed test: its name, and how to run its target
#   run       the arguments of this `cargo test`, if they matter for running a test again
#
# libtest prints the captured output of the tests after the list, and the names of failed tests and the result at the very end. Tests
# that run other tests have such lines in their own output: only the last result of a target counts.

function plain(line) {
    gsub(/\033\[[0-9;]*m/, "", line)
    return line
}

function show(from, into,    at) {
    for (at = from; at <= held; at++) {
        print kept[at]
        if (into != "") print kept[at] >> into
    }
}

# Where the output of the target's failed tests begins; their names are in the lines from `list` to `result`.
function first_output(list, result,    at) {
    for (at = 3; at < list; at++) {
        if (kept[at - 2] != "failures:" || kept[at] !~ /^---- .* std(out|err) ----$/) continue
        name = substr(kept[at], 6)
        sub(/ std(out|err) ----$/, "", name)
        if (is_failed(name, list, result)) return at - 2
    }
    return list
}

function is_failed(name, list, result,    at) {
    for (at = list + 1; at < result; at++) if (kept[at] == "    " name) return 1
    return 0
}

# The output of a target has ended.
function end_target(    result, list, at) {
    for (result = held; result > 0 && kept[result] !~ /^test result: /; result--);
    if (result == 0) {
        # No result: the test program was killed.
        show(1, held > 0 ? outputs : "")
    } else if (kept[result] ~ /^test result: ok/) {
        show(result, "")
    } else {
        for (list = result; list > 1 && kept[list] != "failures:"; list--);
        for (at = list + 1; at < result; at++) if (kept[at] ~ /^    /) names[++count] = substr(kept[at], 5)
        show(first_output(list, result), outputs)
    }
    held = 0
    holds = 0
}

# The name in a line about a test, up to those words.
function name_of(line, end) {
    return substr(line, 6, index(line, end) - 6)
}

function note(what) {
    print what (run == "" ? "" : "   (of cargo test " run ")") >> failed
}

# Cargo says that a target has failed, and how to run it again.
function note_failed(target,    at, name) {
    sub(/^.*rerun pass `/, "", target)
    sub(/`.*$/, "", target)
    for (at = 1; at <= count; at++) note("cargo test " target " -- --exact '" names[at] "'")
    if (count == 0) {
        for (name in slow) {
            note("cargo test " target " -- --exact '" name "'   (had run for over a minute when its program ended)")
            count++
        }
        if (count == 0) note("cargo test " target "   (ended before all its tests had)")
    }
    count = 0
}

{
    line = plain($0)
    # A test that takes over a minute, and its end.
    if (line ~ /^test .* has been running for over 60 seconds$/) slow[name_of(line, " has been ")] = 1
    else if (line ~ /^test .* \.\.\. /) delete slow[name_of(line, " ... ")]
    else if (line ~ /^ +Running /) delete slow
    if (line ~ /^ +(Running|Doc-tests) / || line ~ /^error(\[E[0-9]+\])?: /) {
        end_target()
        if (line ~ /^error: .*rerun pass `/) note_failed(line)
        else if (line ~ /^error: could not /) note(line)
    } else if (line == "successes:" || line == "failures:") {
        holds = 1
    }
    if (holds) kept[++held] = $0
    else print
    fflush()
}

END { end_target() }
