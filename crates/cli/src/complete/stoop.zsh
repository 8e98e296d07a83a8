#compdef stoop
_stoop() {
    local -a found
    found=("${(@f)$(stoop complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -S '' -a found
}
compdef _stoop stoop
