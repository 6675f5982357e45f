module example.com/splitseal/internal/asm/_peers

go 1.26.0

require example.com/splitseal v0.0.0

require golang.org/x/sys v0.50.0

replace example.com/splitseal => ../../..
