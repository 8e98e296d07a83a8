complete -c stoop -f -a '(stoop complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
