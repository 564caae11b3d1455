module verbena

go 1.19
