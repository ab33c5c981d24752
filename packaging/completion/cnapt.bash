# Completion of cnapt for bash: /usr/share/bash-completion/completions/cnapt, or source it.
# In zsh: autoload -U +X bashcompinit && bashcompinit, then source it.

_cnapt()
{
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command='' options at
    # Bash cuts words at "=": an option and its value are three words then.
    if [[ $current == '=' ]]; then
        current=''
    elif [[ $previous == '=' && $COMP_CWORD -gt 1 ]]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    COMPREPLY=()
    for ((at = 1; at < COMP_CWORD; at++)); do
        case ${COMP_WORDS[at]} in
            help | run | resolver | status | flows | top | paths | snapts | ping | portal | usage | reload | doctor | check | classify | estimate)
                command=${COMP_WORDS[at]}
                break
                ;;
            --socket) ((at++)) ;;
        esac
    done

    case $previous in
        --config | --policy | --socket | --pcap | --svg)
            _cnapt_files -f "$current"
            return
            ;;
        --state)
            _cnapt_files -d "$current"
            return
            ;;
        --wait)
            if [[ $current != -* ]]; then
                COMPREPLY=($(compgen -W 'up degraded down' -- "$current"))
                return
            fi
            ;;
        --by)
            if [[ $command == top ]]; then
                _cnapt_list "$current" 'process app class'
            else
                _cnapt_list "$current" 'user class snapt day month app'
            fi
            return
            ;;
        --class)
            _cnapt_list "$current" 'lt-ld ht-ld lt-hd ht-hd'
            return
            ;;
        --sort)
            COMPREPLY=($(compgen -W 'active bytes up down age process class destination' -- "$current"))
            return
            ;;
        --zone)
            _cnapt_zones "$current"
            return
            ;;
        --timeout | --from | --to | --user | --process | --count | --limit | --rate | --rtt) return ;;
    esac

    case $command in
        '') options='run resolver status flows top paths snapts ping portal usage reload doctor check classify estimate help --help --version' ;;
        help)
            options=''
            if [[ $current != -* ]]; then
                COMPREPLY=($(compgen -W 'run resolver status flows top paths snapts ping portal usage reload doctor check classify estimate' -- "$current"))
                return
            fi
            ;;
        run) options='--config --policy --state --verbose' ;;
        status) options='--wait --timeout --wide --watch' ;;
        resolver) options='--config --restore --state' ;;
        flows) options='--all --class --process --sort --limit --csv --wide --watch' ;;
        top) options='--by --limit --csv --wide --watch' ;;
        paths | snapts) options='--wide --watch' ;;
        reload) options='' ;;
        ping) options='--count' ;;
        portal)
            options=''
            if [[ $current != -* ]]; then
                COMPREPLY=($(compgen -W "$(command ls /sys/class/net 2>/dev/null)" -- "$current"))
                return
            fi
            ;;
        doctor) options='--config --policy --state' ;;
        classify) options='--pcap --config --policy --wide' ;;
        estimate) options='--pcap --rate --rtt --svg --config --policy --wide' ;;
        usage) options='--by --from --to --zone --user --csv --wide --watch' ;;
        check)
            options='--config --policy'
            if [[ $current != -* ]]; then
                _cnapt_files -f "$current"
                return
            fi
            ;;
    esac
    COMPREPLY=($(compgen -W "$options --socket --json --help" -- "$current"))
}

# -f: files, -d: folders. A line is a name.
_cnapt_files()
{
    local IFS=$'\n'
    COMPREPLY=($(compgen "$1" -- "$2"))
}

# The last word of a list with commas, of those that are known.
_cnapt_list()
{
    local before=''
    if [[ $1 == *,* ]]; then
        before=${1%,*},
    fi
    COMPREPLY=($(compgen -P "$before" -W "$2" -- "${1##*,}"))
}

_cnapt_zones()
{
    local folder=/usr/share/zoneinfo name
    COMPREPLY=()
    for name in "$folder/$1"*; do
        if [[ -d $name ]]; then
            COMPREPLY+=("${name#"$folder/"}/")
        elif [[ -f $name ]]; then
            COMPREPLY+=("${name#"$folder/"}")
        fi
    done
}

complete -o filenames -F _cnapt cnapt
