# Bash divides words at colons and equals signs; an address has colons.
_stoop() {
    local line=${COMP_LINE:0:COMP_POINT} words last
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    last=${words[-1]}
    local IFS=$'\n'
    COMPREPLY=($(stoop complete -- "${words[@]:1}" 2>/dev/null))
    COMPREPLY=("${COMPREPLY[@]#"${last%"${last##*[:=]}"}"}")
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _stoop stoop
