// Sarama logs in by SCRAM over TLS: writes so many records, and reads them as a member of a group.
//
// sarama_login ADDRESS CA MECHANISM USER PASSWORD TOPIC GROUP RECORDS
package main

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"hash"
	"os"
	"strconv"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

type exchange struct {
	hash         func() hash.Hash
	conversation *scram.ClientConversation
}

func (e *exchange) Begin(user, password, authorizationID string) error {
	client, err := scram.HashGeneratorFcn(e.hash).NewClient(user, password, authorizationID)
	if err == nil {
		e.conversation = client.NewConversation()
	}
	return err
}

func (e *exchange) Step(challenge string) (string, error) { return e.conversation.Step(challenge) }

func (e *exchange) Done() bool { return e.conversation.Done() }

type reader struct {
	wanted int
	found  map[string]bool
	stop   context.CancelFunc
}

func (r *reader) Setup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, isThere := <-claim.Messages():
			if !isThere {
				return nil
			}
			r.found[string(message.Value)] = true
			session.MarkMessage(message, "")
			if len(r.found) == r.wanted {
				r.stop()
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func main() {
	told := os.Args[1:]
	ca, err := os.ReadFile(told[1])
	check(err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	hashes := map[string]func() hash.Hash{
		sarama.SASLTypeSCRAMSHA256: sha256.New,
		sarama.SASLTypeSCRAMSHA512: sha512.New,
	}
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Net.TLS.Enable = true
	config.Net.TLS.Config = &tls.Config{RootCAs: trusted}
	config.Net.SASL.Enable = true
	config.Net.SASL.Mechanism = sarama.SASLMechanism(told[2])
	config.Net.SASL.User, config.Net.SASL.Password = told[3], told[4]
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		return &exchange{hash: hashes[told[2]]}
	}
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	wanted, err := strconv.Atoi(told[7])
	check(err)

	producer, err := sarama.NewSyncProducer([]string{told[0]}, config)
	check(err)
	messages := make([]*sarama.ProducerMessage, wanted)
	for number := range messages {
		value := sarama.StringEncoder(fmt.Sprintf("%s %d", told[2], number))
		messages[number] = &sarama.ProducerMessage{Topic: told[5], Value: value}
	}
	check(producer.SendMessages(messages))
	check(producer.Close())

	group, err := sarama.NewConsumerGroup([]string{told[0]}, told[6], config)
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	found := &reader{wanted: wanted, found: map[string]bool{}, stop: stop}
	for ctx.Err() == nil {
		check(group.Consume(ctx, []string{told[5]}, found))
	}
	check(group.Close())
	fmt.Println("read", len(found.found))
}
