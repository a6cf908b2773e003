package main

import (
	"fmt"
	"os"
	"runtime/pprof"
)

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}
func main() {
	f, _ := os.Create("go-cpu.pb.gz")
	pprof.StartCPUProfile(f)
	fmt.Println(fib(41))
	pprof.StopCPUProfile()
	f.Close()
	g, _ := os.Create("go-heap.pb.gz")
	x := make([][]byte, 0)
	for i := 0; i < 2000; i++ {
		x = append(x, make([]byte, 4096))
	}
	pprof.WriteHeapProfile(g)
	g.Close()
	fmt.Println(len(x))
}
