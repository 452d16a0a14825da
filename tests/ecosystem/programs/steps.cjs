// What came of each step: "ok" or the error. The test compares what two brokers' runs print.
const outcomes = {}
const text = value => JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? String(each) : each))
const pause = () => new Promise(resolve => setTimeout(resolve, 50))

// The name of the innermost error, and Kafka's name of what a broker has said, where the client has it.
const reason = error => {
  while (error.errors?.length || error.cause) error = error.errors?.[0] ?? error.cause
  return [error.name, error.type ?? error.apiId ?? error.message].join(' ')
}

// It is asked until what comes is right: a broker of Apache Kafka hears of a change some time after
// the controller has answered.
exports.step = async (name, act, isRight = () => true) => {
  try {
    let said = await act()
    for (let left = 600; left > 0 && !isRight(said); left--) {
      await pause()
      said = await act()
    }
    outcomes[name] = isRight(said) ? 'ok' : `not right: ${text(said)}`
  } catch (error) {
    outcomes[name] = reason(error)
  }
}

exports.until = async condition => {
  for (let left = 1200; left > 0; left--) {
    if (await condition()) return
    await pause()
  }
  throw new Error(`in vain: ${condition}`)
}

exports.tell = () => console.log(JSON.stringify(outcomes))
