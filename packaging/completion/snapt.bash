# Completion of snapt for bash: /usr/share/bash-completion/completions/snapt, or source it.
# In zsh: autoload -U +X bashcompinit && bashcompinit, then source it.

_snapt()
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
            help | init | run | status | sessions | flows | usage | records | export | rate | balance | topup | adjust | statement | verify | check | doctor | reload | disconnect | drain | top)
                command=${COMP_WORDS[at]}
                break
                ;;
            user)
                command=user
                case ${COMP_WORDS[at + 1]-} in
                    add | list | disable | enable | rotate | revoke | remove)
                        if ((at + 1 < COMP_CWORD)); then
                            command="user ${COMP_WORDS[at + 1]}"
                        fi
                        ;;
                esac
                break
                ;;
            quota)
                command=quota
                case ${COMP_WORDS[at + 1]-} in
                    show | set)
                        if ((at + 1 < COMP_CWORD)); then
                            command="quota ${COMP_WORDS[at + 1]}"
                        fi
                        ;;
                esac
                break
                ;;
            token)
                command=token
                case ${COMP_WORDS[at + 1]-} in
                    add | list | remove)
                        if ((at + 1 < COMP_CWORD)); then
                            command="token ${COMP_WORDS[at + 1]}"
                        fi
                        ;;
                esac
                break
                ;;
            plan)
                command=plan
                case ${COMP_WORDS[at + 1]-} in
                    check | add | use | show)
                        if ((at + 1 < COMP_CWORD)); then
                            command="plan ${COMP_WORDS[at + 1]}"
                        fi
                        ;;
                esac
                break
                ;;
            --socket) ((at++)) ;;
        esac
    done

    case $previous in
        --config | --socket | --key-file | --plan-file)
            _snapt_files -f "$current"
            return
            ;;
        --state)
            _snapt_files -d "$current"
            return
            ;;
        --wait)
            if [[ $command != drain && $current != -* ]]; then
                COMPREPLY=($(compgen -W 'up degraded down' -- "$current"))
                return
            fi
            ;;
        --by)
            _snapt_list "$current" 'user class snapt day month app'
            return
            ;;
        --class)
            _snapt_list "$current" 'lt-ld ht-ld lt-hd ht-hd'
            return
            ;;
        --sort)
            COMPREPLY=($(compgen -W 'active bytes up down age process class destination' -- "$current"))
            return
            ;;
        --zone)
            _snapt_zones "$current"
            return
            ;;
        --format)
            COMPREPLY=($(compgen -W 'csv jsonl' -- "$current"))
            return
            ;;
        --scope)
            COMPREPLY=($(compgen -W 'read bill admin' -- "$current"))
            return
            ;;
        --user | --self)
            _snapt_users "$current"
            return
            ;;
        --timeout | --from | --to | --name | --public | --quota | --device | --key-id | --overlap | --plan | --rev | --account | --ref | --note | --credit | --debit | --month | --limit | --url) return ;;
    esac

    case $command in
        '') options='init run user status sessions flows top disconnect drain usage quota token records export plan rate balance topup adjust statement verify check doctor reload help --help --version' ;;
        help)
            options=''
            if [[ $current != -* ]]; then
                COMPREPLY=($(compgen -W 'init run user status sessions flows top disconnect drain usage quota token records export plan rate balance topup adjust statement verify check doctor reload' -- "$current"))
                return
            fi
            ;;
        init) options='--name --public --config --state' ;;
        run) options='--verbose --new-ledger --config --state' ;;
        user) options='add list disable enable rotate revoke remove' ;;
        'user add') options='--device --quota --key-file --key-id --block --config --state' ;;
        'user list') options='--config --state --wide --watch' ;;
        'user disable' | 'user enable' | 'user rotate' | 'user revoke' | 'user remove')
            options='--config --state'
            case $command in
                'user rotate') options+=' --device --overlap --key-file --key-id --block' ;;
                'user remove') ;;
                *) options+=' --device --key-id' ;;
            esac
            if [[ $current != -* ]]; then
                _snapt_users "$current"
                return
            fi
            ;;
        status) options='--wait --timeout --wide --watch' ;;
        sessions) options='--csv --wide --watch' ;;
        flows) options='--all --class --user --sort --limit --csv --wide --watch' ;;
        top) options='--by --limit --csv --wide --watch' ;;
        reload) options='' ;;
        disconnect)
            options=''
            if [[ $current != -* ]]; then
                _snapt_users "$current"
                return
            fi
            ;;
        drain) options='--timeout --wait --undo' ;;
        doctor) options='--config --state' ;;
        usage) options='--by --from --to --zone --user --csv --wide --watch' ;;
        quota) options='show set' ;;
        'quota show' | 'quota set')
            case $command in
                'quota show') options='--csv --state --wide --watch' ;;
                *) options='--then --credit --zone --state' ;;
            esac
            if [[ $current != -* ]]; then
                _snapt_users "$current"
                return
            fi
            ;;
        token) options='add list remove' ;;
        'token add') options='--scope --self --url --config --state' ;;
        'token list') options='--state --wide --watch' ;;
        'token remove') options='--state' ;;
        records) options='--from --to --zone --user --limit --csv --wide --state' ;;
        export) options='--format --from --to --zone --user --limit --state' ;;
        plan) options='check add use show' ;;
        'plan check' | 'plan add')
            options=''
            if [[ $command == 'plan add' ]]; then
                options='--from --zone --state'
            fi
            if [[ $current != -* ]]; then
                _snapt_files -f "$current"
                return
            fi
            ;;
        balance | topup | adjust | statement)
            case $command in
                balance) options='--csv --state --wide --watch' ;;
                topup) options='--account --ref --note --state' ;;
                adjust) options='--credit --debit --account --ref --note --state' ;;
                statement) options='--month --zone --account --csv --page --wide --state' ;;
            esac
            if [[ $current != -* ]]; then
                _snapt_users "$current"
                return
            fi
            ;;
        verify) options='--state' ;;
        'plan use') options='--user --from --zone --state' ;;
        'plan show') options='--rev --toml --state --wide --watch' ;;
        rate) options='--dry-run --plan --rev --plan-file --state --by --from --to --zone --user --csv --wide --watch' ;;
        check)
            options='--config'
            if [[ $current != -* ]]; then
                _snapt_files -f "$current"
                return
            fi
            ;;
    esac
    COMPREPLY=($(compgen -W "$options --socket --json --help" -- "$current"))
}

# -f: files, -d: folders. A line is a name.
_snapt_files()
{
    local IFS=$'\n'
    COMPREPLY=($(compgen "$1" -- "$2"))
}

# The last word of a list with commas, of those that are known.
_snapt_list()
{
    local before=''
    if [[ $1 == *,* ]]; then
        before=${1%,*},
    fi
    COMPREPLY=($(compgen -P "$before" -W "$2" -- "${1##*,}"))
}

_snapt_zones()
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

# Names from the running daemon, where this user may ask it.
_snapt_users()
{
    local names
    names=$(snapt user list 2>/dev/null | awk 'NR > 1 { print $1 }' | sort -u)
    COMPREPLY=($(compgen -W "$names" -- "$1"))
}

complete -o filenames -F _snapt snapt
