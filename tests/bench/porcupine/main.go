// Checks a history of registers with Porcupine. Input: lines "key write value start end", sorted anyhow.
// Prints the verdict, the seconds of the check, and the peak memory in MB.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

type access struct {
	key   int
	write bool
	value int64
}

func main() {
	limit, _ := time.ParseDuration(os.Args[2])
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	var operations []porcupine.Operation
	lines := bufio.NewScanner(file)
	for id := 0; lines.Scan(); id++ {
		var numbers [5]int64
		for i, field := range strings.Fields(lines.Text()) {
			numbers[i], _ = strconv.ParseInt(field, 10, 64)
		}
		operations = append(operations, porcupine.Operation{
			ClientId: id,
			Input:    access{int(numbers[0]), numbers[1] == 1, numbers[2]},
			Output:   numbers[2],
			Call:     numbers[3],
			Return:   numbers[4],
		})
	}
	model := porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			parts := map[int][]porcupine.Operation{}
			for _, operation := range history {
				key := operation.Input.(access).key
				parts[key] = append(parts[key], operation)
			}
			var all [][]porcupine.Operation
			for _, part := range parts {
				all = append(all, part)
			}
			return all
		},
		Init: func() interface{} { return int64(0) },
		Step: func(state, input, output interface{}) (bool, interface{}) {
			in := input.(access)
			if in.write {
				return true, in.value
			}
			return state.(int64) == output.(int64), state
		},
	}
	began := time.Now()
	verdict := porcupine.CheckOperationsTimeout(model, operations, limit)
	seconds := time.Since(began).Seconds()
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	fmt.Printf("%s %.3f %d\n", verdict, seconds, usage.Maxrss/1024)
}
